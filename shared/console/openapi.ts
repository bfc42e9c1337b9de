import { z } from "zod";
import {
  type Components,
  type Header,
  headersOf,
  type Json,
  noComponents,
  refusalsOf,
  schemaOf,
  toComponents,
  toDocument,
} from "../openapi/document.ts";
import type { ErrorCode } from "../platform/errors/codes.ts";
import { TAGS } from "./contract/contract.ts";
import { type Operation, statusOf } from "./contract/operation.ts";

/**
 * Error codes of all routes (`ANY`), of routes below /api (`BELOW_API`), and of routes with a body (`WITH_BODY`).
 * `request.malformed` is in `ANY`, because every route refuses unknown parameters.
 */
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

type About = {
  version: string;
  /** Name of the session's cookie. */
  cookie: string;
};

/** Returns a function that serves the OpenAPI document. */
export function createOpenApi(about: About) {
  let document: ReturnType<typeof toOpenApi> | undefined;
  return async () => {
    document ??= toOpenApi(about);
    return document;
  };
}

/** Builds the OpenAPI document of the console. */
export function toOpenApi({ version, cookie }: About) {
  const components = noComponents();
  const paths: Record<string, Record<string, unknown>> = {};
  for (const { name: tag, operations } of TAGS)
    for (const [name, operation] of Object.entries(operations)) {
      const path = operation.path.replaceAll("+}", "}");
      const own = { tags: [tag], ...toOperation(name, operation, components) };
      paths[path] = { ...paths[path], [operation.method.toLowerCase()]: own };
    }
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
      ...toComponents(components),
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer" },
        session: { type: "apiKey", in: "cookie", name: cookie },
      },
    },
  };
}

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
      name,
      in: place,
      required: place === "path",
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
  return { [statusOf(operation)]: goodResponse(operation, components), ...refusalsOf(codes, components) };
}

function goodResponse(operation: Operation, components: Components): Json {
  const { answer, file, stream, answerText, location, setsCookie } = operation;
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
  return { description: answerText, ...headersOf(headers, components), ...(content && { content }) };
}
