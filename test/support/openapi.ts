import { Ajv2020 } from "ajv/dist/2020.js";
import { toOpenApi } from "../../shared/console/openapi.ts";
import type { Answer } from "./http.ts";

type Json = Record<string, unknown>;
type Response = {
  $ref?: string;
  description: string;
  headers?: Json;
  content?: Record<string, { schema: Json }>;
};
type Parameter = { name: string; schema: Json };
type Operation = {
  parameters?: Parameter[];
  responses: Record<string, Response>;
  operationId: string;
  tags: string[];
};
export type OpenApi = {
  paths: Record<string, Record<string, Operation>>;
  tags: { name: string }[];
  servers: { url: string }[];
  components: {
    schemas: Json;
    responses?: Record<string, Response>;
    securitySchemes: { session: { name: string } };
  };
};

/** The OpenAPI document of the console. */
export const openApi = toOpenApi({ version: "0.0.0", cookie: "postern" }) as unknown as OpenApi;

/** Closes the schemas: a field that the document lacks is an error here, although clients must accept new fields. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([name, each]) => [name, closed(each)] as const);
  const object = Object.fromEntries(entries);
  const isClosed = object["type"] === "object" && object["properties"] !== undefined;
  return isClosed && object["additionalProperties"] === undefined && object["allOf"] === undefined
    ? { ...object, additionalProperties: false }
    : object;
}

/** A document with a validator of its schemas. */
type Documented = { openApi: OpenApi; ajv: Ajv2020 };

type Judge = (method: string, url: string, answer: Answer) => string | undefined;

const judges = new Map<string, Judge>();

/**
 * Returns a function that describes how an answer differs from the document; undefined if it does not. Paths that do
 * not exist are left to other tests. Equal documents share one function, because it compiles schemas slowly.
 */
export function createUndocumentedIn(openApi: OpenApi): Judge {
  const text = JSON.stringify(openApi);
  const judge = judges.get(text) ?? createJudge(openApi);
  judges.set(text, judge);
  return judge;
}

function createJudge(openApi: OpenApi): Judge {
  const ajv = new Ajv2020({
    // Other tests check that the documents themselves are valid.
    ...{ strict: false, allErrors: true, validateSchema: false },
    formats: {
      ...{ int64: true, binary: true, date: /^\d{4}-\d\d-\d\d$/ },
      "date-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/,
    },
  });
  ajv.addSchema({ $id: "https://document.test/", ...(closed(openApi) as Json) });
  const documented = { openApi, ajv };
  return (method, url, answer) => undocumented(documented, method, url, answer);
}

/** Describes how an answer of the console differs from its document; undefined if it does not. */
export const undocumentedIn = createUndocumentedIn(openApi);

/** Finds the operation at a path, and its path in the document. */
function operationAt(
  { paths }: OpenApi,
  method: string,
  path: string,
): { operation: Operation; at: string } | undefined {
  const wanted = method === "HEAD" ? "get" : method.toLowerCase();
  const found = Object.entries(paths)
    .filter(([each]) =>
      new RegExp(
        `^${each
          .replaceAll(".", "\\.")
          .replace("{job}", ".+")
          .replace(/\{\w+\}/g, "[^/]+")}$`,
      ).test(path),
    )
    .sort(([a], [b]) => Number(a.includes("{")) - Number(b.includes("{")));
  for (const [at, operations] of found) {
    const operation = operations[wanted];
    if (operation !== undefined) return { operation, at: `/paths/${escaped(at)}/${wanted}` };
  }
  return undefined;
}

/** Finds the response with a status, and its place in the document. */
function responseOf(
  { components }: OpenApi,
  { operation, at }: { operation: Operation; at: string },
  status: number,
): { response: Response; place: string } | undefined {
  const key = [String(status), `${String(status)[0]}XX`, "default"].find(
    (each) => operation.responses[each] !== undefined,
  );
  const response = key === undefined ? undefined : operation.responses[key];
  if (response === undefined) return undefined;
  const name = response.$ref?.split("/").at(-1);
  if (name === undefined) return { response, place: `${at}/responses/${key}` };
  return { response: components.responses?.[name] as Response, place: `/components/responses/${name}` };
}

/** Headers that only some answers have, and that the document must describe. */
const HEADERS = [
  ...["Allow", "Content-Disposition", "Location", "Retry-After", "Set-Cookie", "WWW-Authenticate"],
  ...["PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "X-PAYMENT-RESPONSE", "Idempotent-Replayed"],
  ...["Preference-Applied", "Content-Location", "ETag", "Idempotent-Body", "Repr-Digest"],
];

const escaped = (part: string) => encodeURIComponent(part.replaceAll("~", "~0").replaceAll("/", "~1"));

function undocumented({ openApi, ajv }: Documented, method: string, url: string, answer: Answer) {
  const path = url.split("?")[0] ?? url;
  const found = operationAt(openApi, method, path);
  if (found === undefined) return undefined;
  const name = `${method} ${path}: ${answer.status}`;
  const described = responseOf(openApi, found, answer.status);
  if (described === undefined) return `${name} is not among the answers of the document`;
  const { response, place } = described;
  const header = HEADERS.find(
    (each) => answer.headers[each.toLowerCase()] !== undefined && response.headers?.[each] === undefined,
  );
  if (header !== undefined) return `${name} has the header ${header}`;
  const type = answer.headers["content-type"]?.split(";")[0];
  if (response.content === undefined) return answer.body.length === 0 ? undefined : `${name} has a body`;
  if (type === undefined || response.content[type] === undefined)
    return response.content["*/*"] === undefined ? `${name} has the type ${type}` : undefined;
  if (!type.endsWith("json") || method === "HEAD") return undefined;
  const at = `https://document.test/#${place}/content/${escaped(type)}/schema`;
  const check = ajv.getSchema(at) ?? ajv.compile({ $ref: at });
  return check(answer.json()) ? undefined : `${name}: ${ajv.errorsText(check.errors)}`;
}
