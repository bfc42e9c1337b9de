import { z } from "zod";
import { jobPricingForm } from "../../shared/config/job-pricing-toml.ts";
import { operatorToml } from "../../shared/config/operator-toml.ts";
import { posternToml } from "../../shared/config/postern-toml.ts";
import { pricingToml } from "../../shared/config/pricing-toml.ts";
import { webhooksToml } from "../../shared/config/webhooks-toml.ts";
import { x402Toml } from "../../shared/config/x402-toml.ts";
import { exampleFile } from "../shared/config/files.ts";
import { KEYS_OF } from "./sender-keys.ts";

/*
 * The JSON Schemas in config/schema. They have the form of the zod schemas, and the descriptions of config/example and docs/senders.md.
 */

const FORMS: Readonly<Record<string, z.ZodType>> = {
  postern: posternToml({ env: {} }),
  webhooks: webhooksToml({ env: {} }),
  x402: x402Toml({ env: {} }),
  pricing: pricingToml({ env: {} }),
  job_pricing: jobPricingForm,
  operator: operatorToml({ env: {} }),
};

export const SCHEMA_NAMES = Object.keys(FORMS);

export type Schema = { [key: string]: unknown };
type Properties = { [key: string]: Schema };

/** The schema of a configuration file. It accepts every file that the program accepts, and checks few rules between keys. */
export function schemaOf(name: string): Schema {
  const { $schema, ...form } = jsonSchema(FORMS[name]!);
  if (name === "webhooks") mergeItems(form, "endpoints", { key: "auth", unless: "preset" });
  if (name === "x402") mergeItems(form, "accepted_tokens", { key: "transfer_method", otherwise: "eip3009" });
  // A token may inherit these keys from the top of the file.
  if (name === "x402") loosen(itemsOf(form, "accepted_tokens"), "rate_per_native_unit");
  describe(form, name);
  return { $schema, title: `${name}.toml of Postern`, ...form };
}

function jsonSchema(form: z.ZodType): Schema {
  return z.toJSONSchema(form, {
    io: "input",
    target: "draft-7",
    unrepresentable: "any",
    override: ({ jsonSchema }) => replaceWritten(jsonSchema as Schema),
  }) as Schema;
}

/** Replaces a transformed value by the schema in its `writtenAs`, which describes the value in a file. */
function replaceWritten(schema: Schema): void {
  const { writtenAs, default: otherwise } = schema;
  if (!(writtenAs instanceof z.ZodType)) return;
  for (const key of Object.keys(schema)) delete schema[key];
  const { $schema: _, ...written } = jsonSchema(writtenAs);
  Object.assign(schema, written, typeof otherwise === "string" && { default: otherwise });
}

type Merge = {
  /** The key whose value selects the form. */
  key: string;
  /** The value that an absent key counts as. */
  otherwise?: string;
  /** A key that replaces the keys that a form requires. */
  unless?: string;
};

function itemsOf(form: Schema, list: string): Schema {
  return ((form["properties"] as Properties)[list] as Schema)["items"] as Schema;
}

/** Merges several forms of a table into one schema. An editor can then name the wrong key, not only report that no form matches. */
function mergeItems(form: Schema, list: string, { key, otherwise, unless }: Merge): void {
  const items = itemsOf(form, list);
  const variants = items["oneOf"] as { properties: Properties; required: string[] }[];
  const isNever = (property: Schema | undefined) => JSON.stringify(property) === '{"not":{}}';
  const all = Object.assign({}, ...[...variants].reverse().map(({ properties }) => properties)) as Properties;
  for (const [name] of Object.entries(all))
    all[name] = variants.map(({ properties }) => properties[name]).find((each) => each && !isNever(each))!;
  const values = variants.map(({ properties }) => properties[key]!["const"]);
  const common = variants
    .map(({ required }) => required)
    .reduce((some, more) => some.filter((each) => more.includes(each)))
    .filter((each) => each !== key);
  const allOf = variants.map(({ properties, required }, at) => {
    const absent = Object.keys(all).filter(
      (each) => properties[each] === undefined || isNever(properties[each]),
    );
    const needed = required.filter((each) => each !== key && !common.includes(each));
    const isIt = {
      properties: { [key]: { const: values[at] } },
      ...(values[at] !== otherwise && { required: [key] }),
    };
    const mayNot = { properties: Object.fromEntries(absent.map((each) => [each, false])) };
    const must = { required: needed };
    const wanted = unless === undefined ? must : implication({ not: { required: [unless] } }, must);
    return implication(isIt, { ...mayNot, ...(needed.length > 0 && wanted) });
  });
  for (const each of Object.keys(items)) delete items[each];
  Object.assign(items, {
    type: "object",
    properties: { ...all, [key]: { enum: values, ...(otherwise && { default: otherwise }) } },
    required: common,
    ...(unless && { anyOf: [{ required: [key] }, { required: [unless] }] }),
    additionalProperties: false,
    allOf,
  });
}

function implication(condition: Schema, consequence: Schema): Schema {
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  return { if: condition, then: consequence };
}

function loosen(items: Schema, key: string): void {
  items["required"] = (items["required"] as string[]).filter((each) => each !== key);
}

type Words = { path: readonly string[]; text: string };

function describe(form: Schema, name: string): void {
  const words = [...(name === "webhooks" ? SENDER_WORDS : []), ...wordsOf(exampleFile(`${name}.toml`))];
  for (const { path, text } of words) for (const schema of at(form, path)) schema["description"] ??= text;
}

const SENDER_WORDS: readonly Words[] = Object.entries({
  signature: ["endpoints", "signature"],
  timestamp: ["endpoints", "signature", "timestamp"],
  http_signature: ["endpoints", "http_signature"],
  answer: ["endpoints", "answer"],
  handshakes: ["endpoints", "handshakes"],
}).flatMap(([table, path]) =>
  Object.entries(KEYS_OF[table as keyof typeof KEYS_OF]).map(([key, [, text]]) => ({
    path: [...path, key],
    text: text.replace(/: see below$/, ", docs/senders.md"),
  })),
);

/** The comments behind the keys of an example, and the comments above standalone keys. Commented-out keys are included. */
function wordsOf(example: string): Words[] {
  const words: Words[] = [];
  let table: readonly string[] = [];
  let above: string[] = [];
  for (const line of example.split("\n")) {
    const { head, key, behind } = partsOf(line);
    table = head ?? table;
    const isNamed = head !== undefined || key !== undefined;
    const text = behind ?? (key && above.join(" "));
    if (isNamed && text) words.push({ path: key === undefined ? table : [...table, key], text });
    above = !isNamed && /^# (?!\s)/.test(line) ? [...above, line.slice(2)] : [];
  }
  return words;
}

function partsOf(line: string) {
  const [, head] = /^(?:# )?\[\[?([\w."/]+)\]\]?/.exec(line) ?? [];
  const [, key] = /^(?:#\s+)?(\w+) = \S/.exec(line) ?? [];
  const [, behind] = /\S\s+# (?!#)(.+)$/.exec(line) ?? [];
  return { head: head?.split(".").map((part) => part.replaceAll('"', "")), key, behind };
}

/** The schemas at a path. The path goes through lists, tables of any name, and each of several forms. */
function at(schema: Schema, path: readonly string[]): Schema[] {
  const forms = [...((schema["anyOf"] ?? schema["oneOf"] ?? []) as Schema[])].flatMap((form) =>
    at(form, path),
  );
  const items = schema["items"] as Schema | undefined;
  if (items !== undefined && path.length > 0) return [...forms, ...at(items, path)];
  const [first, ...rest] = path;
  if (first === undefined) return [schema];
  const named = (schema["properties"] as Properties | undefined)?.[first];
  const any = schema["additionalProperties"];
  if (named !== undefined) return [...forms, ...at(named, rest)];
  return typeof any === "object" ? [...forms, ...at(any as Schema, rest)] : forms;
}
