// Fields of the application's schemas: what can be filtered, counted, ordered and searched by meaning.

const NUMBERS = ["int", "long", "byte", "float", "double", "bool"];
const DENSE = /^tensor(<\w+>)?\([a-z]\w*\[\d+\]\)$/i;

export const isNumber = (field) => NUMBERS.includes(field.type);
const isText = (field) => field.type === "string";
const ofTexts = (field) => /^(array|weightedset)<string>$/.test(field.type);

export const canFilter = (field) =>
  (field.isIndex || field.isAttribute) && (isNumber(field) || isText(field) || ofTexts(field));
export const canOrder = (field) => field.isAttribute && (isNumber(field) || isText(field));
export const canCount = (field) =>
  field.isAttribute && (isText(field) || ofTexts(field) || field.type === "bool" || field.type === "byte");

// Fields of the chosen schema, or those that all schemas have with one type.
export function fieldsOf(schemas, chosen) {
  const of = Object.values(schemas).filter((schema) => !chosen || schema.name === chosen);
  if (of.length === 0) return [];
  return Object.values(of[0].fields).filter((field) =>
    of.every((schema) => schema.fields[field.name] && schema.fields[field.name].type === field.type));
}

export function profilesOf(schemas, chosen) {
  const of = Object.values(schemas).filter((schema) => !chosen || schema.name === chosen);
  if (of.length === 0) return [];
  return Object.values(of[0].rankProfiles).filter((profile) =>
    of.every((schema) => schema.rankProfiles[profile.name]));
}

// Ways to search by meaning: a vector field, and an input of a rank profile with as many numbers.
export function meanings(application, chosen) {
  if (!application.embedders.length) return [];
  const shape = (type) => type.replace(/^tensor(<\w+>)?/i, "");
  const vectors = fieldsOf(application.schemas, chosen)
    .filter((field) => field.isAttribute && DENSE.test(field.type));
  return profilesOf(application.schemas, chosen).flatMap((profile) =>
    Object.entries(profile.inputs).flatMap(([input, type]) => vectors
      .filter((field) => shape(field.type) === shape(type))
      .map((field) => ({ field: field.name, input: input.slice(6, -1), profile: profile.name }))));
}

// Comparisons that a filter offers for a field.
export function comparisons(field) {
  if (field.type === "bool") return [["is", "is"]];
  if (isNumber(field)) return [["=", "="], [">=", "at least"], ["<=", "at most"], ["not", "is not"]];
  return [["is", field.isIndex ? "contains" : "is"], ["not", field.isIndex ? "lacks" : "is not"],
    ["prefix", "begins with"]];
}

// Condition of a filter in YQL. Texts travel as parameters, which are added to `sent`.
export function condition({ field, comparison, value }, sent) {
  if (field.type === "bool") return field.name + " = " + (value === "true");
  if (isNumber(field)) {
    const text = value.trim();
    if (text === "" || !Number.isFinite(Number(text))) {
      throw new Error("“" + value + "” is not a number: " + field.name + " is of type " + field.type);
    }
    // Integers as they are written: a number would round those beyond 2^53.
    const number = /^-?\d+$/.test(text) ? BigInt(text) : Number(text);
    return comparison === "not" ? "!(" + field.name + " = " + number + ")"
      : field.name + " " + comparison + " " + number;
  }
  const name = "filter" + Object.keys(sent).length;
  sent[name] = value;
  if (comparison === "prefix") return field.name + " contains ({prefix: true}@" + name + ")";
  const positive = field.name + " contains @" + name;
  return comparison === "not" ? "!(" + positive + ")" : positive;
}
