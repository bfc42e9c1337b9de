import { Ajv2020 } from "ajv/dist/2020.js";
import { toOpenApi } from "../../services/console/openapi.ts";
import type { Answer } from "./http.ts";

type Json = Record<string, unknown>;
type Response = { description: string; headers?: Json; content?: Record<string, { schema: Json }> };
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
  components: { schemas: Json; securitySchemes: { session: { name: string } } };
};

/** What the service says of itself. */
export const openApi = toOpenApi({ version: "0.0.0", cookie: "postern" }) as unknown as OpenApi;

/** So that a member that the document does not have is an error here, though readers are to expect new ones. */
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

const ajv = new Ajv2020({
  ...{ strict: false, allErrors: true },
  formats: {
    ...{ int64: true, binary: true, date: /^\d{4}-\d\d-\d\d$/ },
    "date-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/,
  },
});
ajv.addSchema({ $id: "https://document.test/", ...(closed(openApi) as Json) });

/** The operation at a path, and its path in the document. */
function operationAt(method: string, path: string): { operation: Operation; at: string } | undefined {
  const wanted = method === "HEAD" ? "get" : method.toLowerCase();
  const found = Object.entries(openApi.paths)
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

/** Headers by which an answer says what no other one does. */
const HEADERS = [
  ...["Allow", "Content-Disposition", "Location", "Retry-After", "Set-Cookie", "WWW-Authenticate"],
];

const escaped = (part: string) => encodeURIComponent(part.replaceAll("~", "~0").replaceAll("/", "~1"));

/** What of an answer is not as the document says; undefined if all is. A path that is none is left to its tests. */
export function undocumentedIn(method: string, url: string, answer: Answer): string | undefined {
  const path = url.split("?")[0] ?? url;
  const found = operationAt(method, path);
  if (found === undefined) return undefined;
  const name = `${method} ${path}: ${answer.status}`;
  const response = found.operation.responses[String(answer.status)];
  if (response === undefined) return `${name} is not among the answers of the document`;
  const header = HEADERS.find(
    (each) => answer.headers[each.toLowerCase()] !== undefined && response.headers?.[each] === undefined,
  );
  if (header !== undefined) return `${name} has the header ${header}`;
  const type = answer.headers["content-type"]?.split(";")[0];
  if (response.content === undefined) return answer.body.length === 0 ? undefined : `${name} has a body`;
  if (type === undefined || response.content[type] === undefined) return `${name} has the type ${type}`;
  if (!type.endsWith("json") || method === "HEAD") return undefined;
  const place = `https://document.test/#${found.at}/responses/${answer.status}/content/${escaped(type)}/schema`;
  const check = ajv.getSchema(place) ?? ajv.compile({ $ref: place });
  return check(answer.json()) ? undefined : `${name}: ${ajv.errorsText(check.errors)}`;
}
