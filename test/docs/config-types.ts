import { SCHEMA_NAMES, type Schema, schemaOf } from "./config-schemas.ts";

/** The types of the configuration files, made from their JSON Schemas, for code that writes such tables. */
export function configTypes(): string {
  const types = SCHEMA_NAMES.filter((name) => name !== "operator").map((name) => {
    const type = typeOf(schemaOf(name), "");
    return `/** Content of \`${name}.toml\`. */\nexport interface ${nameOf(name)} ${type.startsWith("{") ? type : `extends ${type} {}`}\n`;
  });
  return ["/* Made of the schemas beside this file: test/docs/config-schemas.test.ts. */\n", ...types].join(
    "\n",
  );
}

function nameOf(file: string): string {
  const words = file.split("_").map((word) => word.charAt(0).toUpperCase() + word.slice(1));
  return `${words.join("")}File`;
}

function typeOf(schema: Schema, indent: string): string {
  const { type, properties, additionalProperties, items } = schema;
  const values = "const" in schema ? [schema["const"]] : schema["enum"];
  if (Array.isArray(values)) return values.map((value) => JSON.stringify(value)).join(" | ");
  if (properties !== undefined) return membersOf(schema, indent);
  const forms = schema["anyOf"] ?? schema["oneOf"];
  if (Array.isArray(forms)) return [...new Set(forms.map((form) => typeOf(form, indent)))].join(" | ");
  if (type === "array") {
    const item = typeOf(items as Schema, indent);
    const isOne = /^\w+$/.test(item) || (items as Schema)["properties"] !== undefined;
    return isOne ? `readonly ${item}[]` : `readonly (${item})[]`;
  }
  if (type === "object") return `Readonly<Record<string, ${typeOf(additionalProperties as Schema, indent)}>>`;
  return type === "integer" ? "number" : String(type ?? "unknown");
}

function membersOf({ properties, required = [] }: Schema, indent: string): string {
  const inner = `${indent}  `;
  const members = Object.entries(properties as Record<string, Schema>).map(([key, schema]) => {
    const mark = (required as string[]).includes(key) ? "" : "?";
    return `${commentOf(schema, inner)}${inner}${key}${mark}: ${typeOf(schema, inner)};\n`;
  });
  return `{\n${members.join("")}${indent}}`;
}

function commentOf({ description, default: otherwise }: Schema, indent: string): string {
  const plain = otherwise !== undefined && typeof otherwise !== "object";
  const words = [description, plain && `@default ${JSON.stringify(otherwise)}`].filter(Boolean);
  return words.length === 0 ? "" : `${indent}/** ${words.join(" ")} */\n`;
}
