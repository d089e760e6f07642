//! Words that analyzers leave out, by their lists' names.

/// Words of the list `_english_`.
pub(super) const ENGLISH: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no",
    "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to",
    "was", "will", "with",
];

/// Articles before an apostrophe that French drops.
pub(super) const FRENCH_ARTICLES: [&str; 13] =
    ["l", "m", "t", "qu", "n", "s", "j", "d", "c", "jusqu", "quoiqu", "lorsqu", "puisqu"];

/// Lists of other languages by their names, nearly those of Elasticsearch: articles, pronouns, prepositions,
/// conjunctions, and forms of the verbs for to be and to have.
const OF_LANGUAGES: [(&str, &str); 7] = [
    ("_brazilian_", PORTUGUESE),
    ("_dutch_", DUTCH),
    ("_french_", FRENCH),
    ("_german_", GERMAN),
    ("_italian_", ITALIAN),
    ("_portuguese_", PORTUGUESE),
    ("_spanish_", SPANISH),
];

/// Words of a list that is nearly that of Elasticsearch; `None` if there is no such list.
pub(super) fn near(list: &str) -> Option<impl Iterator<Item = &'static str>> {
    let (_, words) = OF_LANGUAGES.iter().find(|(name, _)| *name == list)?;
    Some(words.split(' '))
}

/// Name of the list of a language; `_none_` if there is none.
pub(super) fn list_of(language: &str) -> &'static str {
    let is_of = |list: &str| list.trim_matches('_') == language;
    OF_LANGUAGES.iter().find(|(list, _)| is_of(list)).map_or("_none_", |(list, _)| *list)
}

const DUTCH: &str = "\
    aan al alles als altijd andere ben bij daar dan dat de der deze die dit doch doen door dus een \
    en er ge geen had heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je kan kon \
    kunnen maar me meer men met mij mijn moet na naar niet niets nog nu of om omdat onder ons ook op \
    over reeds te tegen toch toen tot u uit uw van veel voor want waren was wat werd wezen wie wil \
    worden wordt zal ze zelf zich zij zijn zo zonder zou";

const FRENCH: &str = "\
    au aux avec ce ces cet cette dans de des du elle elles en et eux il ils je la le les leur leurs \
    lui ma mais me mes moi mon ne nos notre nous on ou où par pas pour qu que qui sa se ses son sur \
    ta te tes toi ton tu un une vos votre vous c d j l m n s t y à été étée étées étés étant suis es \
    est sommes êtes sont serai seras sera serons serez seront étais était étions étiez étaient fus \
    fut furent sois soit soyons soyez soient ai as a avons avez ont aurai auras aura aurons aurez \
    auront avais avait avions aviez avaient eut eurent aie aies ait ayons ayez aient ayant eu";

const GERMAN: &str = "\
    aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes \
    auch auf aus bei bin bis bist da damit dann das dass daß dein deine deinem deinen deiner dem den \
    denn der des dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine \
    einem einen einer eines er es etwas euch euer eure für gegen hab habe haben hat hatte hatten \
    hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ins ist ja jede jedem jeden \
    jeder jedes jene kann kein keine keinem keinen keiner können könnte man manche mein meine meinem \
    meinen meiner mich mir mit muss musste nach nicht nichts noch nun nur ob oder ohne sehr sein \
    seine seinem seinen seiner selbst sich sie sind so solche soll sollte sondern um und uns unser \
    unsere unter viel vom von vor war waren warst was weil welche welcher wenn werde werden wie \
    wieder will wir wird wirst wo wollen würde würden zu zum zur zwar zwischen über";

const ITALIAN: &str = "\
    a ad agli ai al alla alle allo anche avere aveva avevano c che chi ci come con contro cui da \
    dagli dai dal dalla dalle dallo degli dei del dell della delle dello di dove e ed era erano \
    essere fu furono gli ha hai hanno ho i il in io l la le lei li lo loro lui ma mi mia mie miei \
    mio ne negli nei nel nell nella nelle nello noi non nostra nostre nostri nostro o per perché più \
    quale quanta quante quanti quanto quella quelle quelli quello questa queste questi questo se sei \
    si siamo sia siete sono sta stai stanno sto su sua sue sugli sui sul sulla sulle sullo suo suoi \
    ti tra tu tua tue tuo tuoi tutti tutto un una uno vi voi vostra vostre vostri vostro è";

const PORTUGUESE: &str = "\
    a ao aos aquela aquelas aquele aqueles aquilo as até com como da das de dela delas dele deles \
    depois do dos e ela elas ele eles em entre era eram essa essas esse esses esta está estão estas \
    estava este estes eu foi foram há isso isto já lhe lhes mais mas me mesmo meu meus minha minhas \
    muito na nas nem no nos nós nossa nossas nosso nossos num numa não o os ou para pela pelas pelo \
    pelos por qual quando que quem se seja sem ser seu seus só sua suas são também te tem tinha têm \
    teu tua um uma você vocês à às é";

const SPANISH: &str = "\
    a al algo algunas algunos ante antes como con contra cual cuando de del desde donde durante e el \
    él ella ellas ellos en entre era eran eras es esa esas ese eso esos esta está estaba estado \
    están estar estas este esto estos estoy fue fueron fui ha había habían han has hasta hay he la \
    las le les lo los me mi mí mis mucho muchos muy más nada ni no nos nosotros nosotras nuestra \
    nuestras nuestro nuestros o os otra otras otro otros para pero poco por porque que quien quienes \
    qué se sea sean ser si sí sido sin sobre son soy su sus suyo suya también tanto te tengo tenía \
    tiene tienen todo todos tu tú tus un una uno unos unas vosotros y ya yo";
