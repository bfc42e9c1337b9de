import { z } from "zod";
import { TAGS } from "../../shared/console/contract/contract.ts";
import { type Operation, statusOf } from "../../shared/console/contract/operation.ts";
import { CODES, type ErrorCode } from "../../shared/platform/errors/codes.ts";

type Json = Readonly<Record<string, unknown>>;

/** A problem document (RFC 9457), as every refusal is. */
const Problem = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.string(),
    /** The detail again. */
    error: z.string(),
  })
  .meta({ id: "Problem" });

/** Refusals that any route may answer, an unknown parameter among them, that one below /api may, and that one with a body may. */
const ANY: readonly ErrorCode[] = [
  ...(["operator.unauthorized", "operator.forbidden", "operator.cross_site"] as const),
  ...(["request.malformed", "request.method_not_allowed", "request.rate_limited"] as const),
  ...(["request.timed_out", "request.expectation_failed", "request.headers_too_large"] as const),
  ...(["request.transfer_coding_unsupported", "operator.host_unknown"] as const),
  ...(["internal.unexpected", "queue.unavailable", "queue.denied"] as const),
];
const BELOW_API: readonly ErrorCode[] = ["service.starting", "queue.not_durable", "record.unreadable"];
const WITH_BODY: readonly ErrorCode[] = [
  ...(["request.too_large", "request.media_type_unsupported", "request.encoding_unsupported"] as const),
];

/** The headers that a refusal of a status has. */
const REFUSAL_HEADERS: Readonly<Record<number, readonly Header[]>> = {
  401: ["WWW-Authenticate"],
  405: ["Allow"],
  409: ["Retry-After"],
  429: ["Retry-After"],
  503: ["Retry-After"],
};

const HEADERS = {
  Allow: { description: "The methods of the path.", schema: { type: "string" } },
  "Content-Disposition": { description: "The name of the file.", schema: { type: "string" } },
  Location: { description: "The path of what was begun or made.", schema: { type: "string" } },
  "Retry-After": {
    description: "The seconds until the next attempt.",
    schema: { type: "integer", format: "int64", minimum: 1 },
  },
  "Set-Cookie": { description: "The cookie of the session.", schema: { type: "string" } },
  "WWW-Authenticate": { description: "How to send a token.", schema: { type: "string" } },
};
type Header = keyof typeof HEADERS;

type About = {
  version: string;
  /** The name of the session's cookie. */
  cookie: string;
};

/** Answers the document of the API. */
export function createOpenApi(about: About) {
  let document: ReturnType<typeof toOpenApi> | undefined;
  return async () => {
    document ??= toOpenApi(about);
    return document;
  };
}

/** The OpenAPI document of the console. */
export function toOpenApi({ version, cookie }: About) {
  const components: Record<string, unknown> = {};
  const paths: Record<string, Record<string, unknown>> = {};
  for (const { name: tag, operations } of TAGS)
    for (const [name, operation] of Object.entries(operations)) {
      const path = operation.path.replaceAll("+}", "}");
      const own = { tags: [tag], ...toOperation(name, operation, components) };
      paths[path] = { ...paths[path], [operation.method.toLowerCase()]: own };
    }
  schemaOf(Problem, "output", components);
  return {
    openapi: "3.1.0" as const,
    info: {
      title: "Postern console",
      version,
      description:
        "Answers may get new members. Members are never renamed or removed. A member whose value is unknown is null or absent.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/", description: "The console that this document is from" }],
    security: [{ bearer: [] }, { session: [] }],
    tags: TAGS.map(({ name, description }) => ({ name, description })),
    paths,
    components: {
      schemas: Object.fromEntries(Object.entries(components).sort(([a], [b]) => (a < b ? -1 : 1))),
      headers: HEADERS,
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer" },
        session: { type: "apiKey", in: "cookie", name: cookie },
      },
    },
  };
}

type Components = Record<string, unknown>;

function toOperation(operationId: string, operation: Operation, components: Components): Json {
  const { summary, role, params, query, body, stream } = operation;
  const parameters = [...parametersOf(params, "path"), ...parametersOf(query, "query")];
  return {
    operationId,
    summary,
    ...(role === "anybody" ? { security: [] } : { "x-postern-role": role }),
    ...(stream !== undefined && { "x-postern-stream": true }),
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && {
      requestBody: {
        required: true,
        content: { "application/json": { schema: schemaOf(body, "input", components) } },
      },
    }),
    responses: responsesOf(operation, components),
  };
}

function parametersOf(schema: z.ZodObject | undefined, place: "path" | "query"): Json[] {
  return Object.entries<z.ZodType>(schema?.shape ?? {}).map(([name, each]) => {
    const plain = z.toJSONSchema(each, { io: "input", unrepresentable: "any" }) as Json;
    const { default: _, ...own } = toDocument(plain["asParameter"] ?? plain, "input") as Json;
    const otherwise: unknown = each instanceof z.ZodDefault ? each.def.defaultValue : undefined;
    return {
      ...{ name, in: place, required: place === "path" },
      schema: { ...own, ...(otherwise !== undefined && { default: otherwise }) },
    };
  });
}

function responsesOf(operation: Operation, components: Components) {
  const { path, problems = [], params, body } = operation;
  const codes = new Set<ErrorCode>([
    ...ANY,
    ...(path.startsWith("/api/") ? BELOW_API : []),
    ...(params === undefined ? [] : (["request.not_found"] as const)),
    ...(body === undefined ? [] : WITH_BODY),
    ...problems,
  ]);
  const responses: Record<string, unknown> = { [statusOf(operation)]: goodResponse(operation, components) };
  for (const status of [...new Set([...codes].map((code) => CODES[code].status))].sort((a, b) => a - b)) {
    const of = [...codes].filter((code) => CODES[code].status === status);
    responses[status] = {
      description: of.map((code) => `\`${code}\`: ${CODES[code].title}`).join("; "),
      ...headersOf(REFUSAL_HEADERS[status] ?? []),
      content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
    };
  }
  return responses;
}

function goodResponse(operation: Operation, components: Components): Json {
  const { answer, file, stream, says, location, setsCookie } = operation;
  const [type] = (file ?? stream ?? "").split(";");
  const isText = type?.startsWith("text/");
  const bytes = { type: "string", ...(!isText && { format: "binary" }) };
  const content = answer
    ? { "application/json": { schema: schemaOf(answer, "output", components) } }
    : type && { [type]: { schema: bytes } };
  const headers: readonly Header[] = [
    ...(location === undefined ? [] : (["Location"] as const)),
    ...(setsCookie ? (["Set-Cookie"] as const) : []),
    ...(file === undefined ? [] : (["Content-Disposition"] as const)),
  ];
  return { description: says, ...headersOf(headers), ...(content && { content }) };
}

function headersOf(names: readonly Header[]): Json {
  if (names.length === 0) return {};
  return {
    headers: Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }])),
  };
}

/** The schema as the document has it. What has an id is put among the components. */
function schemaOf(schema: z.ZodType, io: "input" | "output", components: Components): Json {
  // In an object a schema with an id becomes a reference; alone it would stand for itself.
  const wrapped = z.toJSONSchema(z.object({ it: schema }), {
    io,
    unrepresentable: "any",
    override: discriminate,
  });
  const { $defs = {}, properties = {} } = toDocument(wrapped, io) as {
    $defs?: Record<string, Json>;
    properties?: { it?: Json };
  };
  Object.assign(components, $defs);
  return properties.it ?? {};
}

/** Says by which member readers tell the schemas of a union apart. */
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

/** Keywords of which the document has no need. */
const LEFT_OUT = new Set(["$schema", "$id", "id", "asParameter", "propertyNames"]);

/** Answers get new members, so their readers are not told that there are no others. References lead to the components. */
function toDocument(value: unknown, io: "input" | "output"): unknown {
  if (Array.isArray(value)) return value.map((each) => toDocument(each, io));
  if (typeof value !== "object" || value === null) return value;
  const schema = value as Json;
  const { properties, type, format } = schema;
  const entries = Object.entries(schema).flatMap(([name, each]): [string, unknown][] => {
    if (name === "properties") return [[name, mapped(properties, io)]];
    if (LEFT_OUT.has(name)) return [];
    if (name === "additionalProperties" && each === false && io === "output") return [];
    if (name === "pattern" && format !== undefined && io === "output") return [];
    if (name === "$ref") return [[name, String(each).replace("#/$defs/", "#/components/schemas/")]];
    return [[name, toDocument(each, io)]];
  });
  // A literal number has the type number. A client may read an integer without a format as one of 32 bits.
  const isWhole = type === "integer" || (type === "number" && schema["enum"] !== undefined);
  return { ...Object.fromEntries(entries), ...(isWhole && { type: "integer", format: "int64" }) };
}

/** The schemas of members, which may have the name of a keyword. */
function mapped(members: unknown, io: "input" | "output"): Json {
  return Object.fromEntries(
    Object.entries(members as Json).map(([name, each]) => [name, toDocument(each, io)]),
  );
}
