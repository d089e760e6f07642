// The view of the application: its schemas, rank profiles, and the warnings of its deployment.

import { element, make, table } from "./dom.js";

const yes = (value) => (value ? "yes" : "");

function schemaView(schema) {
  const view = make("section");
  view.append(make("h2", schema.name));
  const fields = Object.values(schema.fields).map((field) =>
    [field.name, field.type, yes(field.isIndex), yes(field.isAttribute), field.aliases.join(", ")]);
  view.append(table("Fields", ["Name", "Type", "Index", "Attribute", "Aliases"], fields));
  const sets = Object.values(schema.fieldSets).map((set) => [set.name, set.fieldNames.join(", ")]);
  if (sets.length > 0) view.append(table("Fieldsets", ["Name", "Fields"], sets));
  const profiles = Object.values(schema.rankProfiles).map((profile) =>
    [profile.name, Object.entries(profile.inputs).map(([name, type]) => name + " " + type).join(", ")]);
  view.append(table("Rank profiles", ["Name", "Inputs"], profiles));
  const summaries = Object.values(schema.documentSummaries).map((summary) =>
    [summary.name, Object.keys(summary.fields).join(", ")]);
  view.append(table("Document summaries", ["Name", "Fields"], summaries));
  return view;
}

export function showApplication(application) {
  const view = element("application-view");
  view.replaceChildren(make("p", "Generation " + application.generation));
  if (application.warnings.length > 0) {
    const list = make("ul", undefined, { class: "warnings" });
    list.append(...application.warnings.map((warning) => make("li", warning)));
    view.append(make("h2", "Warnings of the deployment"), list);
  }
  const lists = { Embedders: application.embedders, "Query profiles": application.queryProfiles };
  for (const [title, names] of Object.entries(lists)) {
    if (names.length > 0) view.append(make("p", title + ": " + names.join(", ")));
  }
  view.append(...Object.values(application.schemas).map(schemaView));
}
