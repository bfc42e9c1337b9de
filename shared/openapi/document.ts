import { z } from "zod";
import { CODES, type ErrorCode } from "../platform/errors/codes.ts";

export type Json = Readonly<Record<string, unknown>>;

/**
 * The components of an OpenAPI document, which other parts refer to by name. The functions in this file add each component that
 * they refer to.
 */
export type Components = { schemas: Record<string, unknown>; headers: Record<string, unknown> };

export const noComponents = (): Components => ({ schemas: {}, headers: {} });

/** The members of a problem document (RFC 9457). */
export const problemMembers = {
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string(),
  code: z.string(),
  /** A copy of `detail`. */
  error: z.string(),
};

/** A problem document (RFC 9457). Every refusal has this form. */
const Problem = z.object(problemMembers).meta({ id: "Problem" });

const HEADERS = {
  "Accept-Encoding": { description: "The content codings that are accepted.", schema: { type: "string" } },
  Allow: { description: "The methods of the path.", schema: { type: "string" } },
  "Content-Disposition": { description: "The name of the file.", schema: { type: "string" } },
  "Content-Location": { description: "The URL of this result.", schema: { type: "string" } },
  ETag: { description: "Changes with the document.", schema: { type: "string" } },
  "Idempotent-Body": {
    description: "`forgotten`: the body of the first answer is no longer kept.",
    schema: { type: "string" },
  },
  "Idempotent-Replayed": {
    description: "`true`: the same request was accepted before.",
    schema: { type: "string" },
  },
  Location: { description: "The path of what was begun or made.", schema: { type: "string" } },
  "PAYMENT-REQUIRED": {
    description: "The offers of x402 version 2: JSON in base64.",
    schema: { type: "string" },
  },
  "PAYMENT-RESPONSE": {
    description:
      "The settlement of a payment of x402 version 2: JSON in base64. With a result, `extensions.signed_receipt` is the receipt.",
    schema: { type: "string" },
  },
  "Preference-Applied": {
    description: "The preference (RFC 7240) that was granted.",
    schema: { type: "string" },
  },
  "Repr-Digest": {
    description: "The digest of a body that is no longer kept (RFC 9530).",
    schema: { type: "string" },
  },
  "Retry-After": {
    description: "The seconds until the next attempt.",
    schema: { type: "integer", format: "int64", minimum: 1 },
  },
  "Set-Cookie": { description: "The cookie of the session.", schema: { type: "string" } },
  "WWW-Authenticate": { description: "How to send a token.", schema: { type: "string" } },
  "X-PAYMENT-RESPONSE": {
    description: "The settlement of a payment of x402 version 1: JSON in base64.",
    schema: { type: "string" },
  },
};
export type Header = keyof typeof HEADERS;

export function headersOf(names: readonly Header[], components: Components): Json {
  if (names.length === 0) return {};
  for (const name of names) components.headers[name] = HEADERS[name];
  return {
    headers: Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }])),
  };
}

/** The usual headers of a refusal, by its status. */
const REFUSAL_HEADERS: Readonly<Record<number, readonly Header[]>> = {
  401: ["WWW-Authenticate"],
  405: ["Allow"],
  409: ["Retry-After"],
  415: ["Accept-Encoding"],
  429: ["Retry-After"],
  503: ["Retry-After"],
};

/** Changes to the usual refusal of a status. `headers` replaces the usual headers, and `also` adds to them. */
export type Refusal = { schema?: z.ZodType; headers?: readonly Header[]; also?: readonly Header[] };

/** Returns the responses for these error codes, by status. */
export function refusalsOf(
  codes: Iterable<ErrorCode>,
  components: Components,
  refusalOf: (status: number) => Refusal = () => ({}),
): Record<string, Json> {
  const all = [...new Set(codes)];
  const statuses = [...new Set(all.map((code) => CODES[code].status))].sort((a, b) => a - b);
  return Object.fromEntries(
    statuses.map((status) => {
      const { schema = Problem, headers = REFUSAL_HEADERS[status] ?? [], also = [] } = refusalOf(status);
      const of = all.filter((code) => CODES[code].status === status);
      const response = {
        description: of.map((code) => `\`${code}\`: ${CODES[code].title}`).join("; "),
        ...headersOf([...headers, ...also], components),
        content: { "application/problem+json": { schema: schemaOf(schema, "output", components) } },
      };
      return [String(status), response];
    }),
  );
}

export function toComponents({ schemas, headers }: Components) {
  return { schemas: byName(schemas), headers: byName(headers) };
}

function byName(of: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(of).sort(([a], [b]) => (a < b ? -1 : 1)));
}

type Converted = { schema: Json; components: Json };

/**
 * Cache of converted schemas. A gateway makes its document again after each reload, and the conversion takes most of the time for
 * that.
 */
const converted = { input: new WeakMap<z.ZodType, Converted>(), output: new WeakMap<z.ZodType, Converted>() };

/** Converts a schema for the document. A schema with an id becomes a component. */
export function schemaOf(schema: z.ZodType, io: "input" | "output", components: Components): Json {
  const known = converted[io].get(schema) ?? convert(schema, io);
  converted[io].set(schema, known);
  Object.assign(components.schemas, known.components);
  return known.schema;
}

function convert(schema: z.ZodType, io: "input" | "output"): Converted {
  // Inside an object, zod turns a schema with an id into a reference. Alone, the schema would be inlined.
  const wrapped = z.toJSONSchema(z.object({ it: schema }), {
    io,
    unrepresentable: "any",
    override: discriminate,
  });
  const { $defs = {}, properties = {} } = toDocument(wrapped, io) as {
    $defs?: Record<string, Json>;
    properties?: { it?: Json };
  };
  return { schema: properties.it ?? {}, components: $defs };
}

/** Adds the name of the member whose value shows which schema of a union applies (OpenAPI's `discriminator`). */
function discriminate({ zodSchema, jsonSchema }: { zodSchema: unknown; jsonSchema: object }): void {
  if (!(zodSchema instanceof z.ZodDiscriminatedUnion)) return;
  const { discriminator: propertyName } = zodSchema.def;
  const mapping = zodSchema.options.flatMap((option) => {
    const { id = "" } = z.globalRegistry.get(option as z.ZodType) ?? {};
    const values = [...(option._zod.propValues?.[propertyName] ?? [])];
    return values.map((value) => [value, `#/components/schemas/${id}`]);
  });
  Object.assign(jsonSchema, { discriminator: { propertyName, mapping: Object.fromEntries(mapping) } });
}

/** Keywords of zod's JSON schemas that are left out of the document. */
const LEFT_OUT = new Set(["$schema", "$id", "id", "asParameter", "propertyNames"]);

/**
 * Converts a JSON schema for the document. Its references are changed so that they point to the document's components. The schema
 * of an answer permits unknown members, because later releases may add some.
 */
export function toDocument(value: unknown, io: "input" | "output"): unknown {
  if (Array.isArray(value)) return value.map((each) => toDocument(each, io));
  if (typeof value !== "object" || value === null) return value;
  const schema = value as Json;
  const { properties, type, format } = schema;
  const entries = Object.entries(schema).flatMap(([name, each]): [string, unknown][] => {
    if (name === "properties") return [[name, convertMembers(properties, io)]];
    if (LEFT_OUT.has(name)) return [];
    if (name === "additionalProperties" && each === false && io === "output") return [];
    if (name === "pattern" && format !== undefined && io === "output") return [];
    if (name === "$ref") return [[name, String(each).replace("#/$defs/", "#/components/schemas/")]];
    return [[name, toDocument(each, io)]];
  });
  // zod writes a literal integer with the type `number`, which is corrected here. The format is set because clients may assume 32
  // bits without it.
  const isWhole = type === "integer" || (type === "number" && schema["enum"] !== undefined);
  return { ...Object.fromEntries(entries), ...(isWhole && { type: "integer", format: "int64" }) };
}

/**
 * Converts the schemas of an object's members. A member may have the same name as a keyword of JSON schemas, so its name is
 * copied as it is.
 */
function convertMembers(members: unknown, io: "input" | "output"): Json {
  return Object.fromEntries(
    Object.entries(members as Json).map(([name, each]) => [name, toDocument(each, io)]),
  );
}
