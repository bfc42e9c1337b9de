import { z } from "zod";
import { AuditEntryView } from "../../shared/console/audit-trail.ts";
import { AuditView, BulkView, RefundCheckView } from "../../shared/console/bulk-operations.ts";
import { CallLifeView, FoundCallView } from "../../shared/console/calls.ts";
import { CONTRACT } from "../../shared/console/contract/contract.ts";
import { type Operation, statusOf, type Table } from "../../shared/console/contract/operation.ts";
import {
  FailedCallDetail,
  FailedCallView,
  FailedFilter,
  FailedGroupView,
} from "../../shared/console/failed.ts";
import { FailedBulkView } from "../../shared/console/failed-bulk.ts";
import { JobView } from "../../shared/console/jobs.ts";
import { EndpointView } from "../../shared/console/overview/endpoints.ts";
import { FlowView } from "../../shared/console/overview/flow.ts";
import { OverviewView } from "../../shared/console/overview/overview.ts";
import { SoldJobView } from "../../shared/console/overview/prices.ts";
import { EarnedView } from "../../shared/console/overview/revenue.ts";
import { PaidSum } from "../../shared/console/paid-sum.ts";
import { PaymentDetail, PaymentView } from "../../shared/console/payment-view.ts";
import { RateView, ReadingView } from "../../shared/console/rates.ts";
import { RefundCheck } from "../../shared/console/refund-check.ts";
import { RefundCase, RefundExportView } from "../../shared/console/refunds.ts";
import { RejectedView } from "../../shared/console/rejected.ts";
import { SpentElsewhereView } from "../../shared/console/spent-elsewhere.ts";
import { TokenMatches } from "../../shared/console/transfer-matches.ts";
import { CODES, type ErrorCode } from "../../shared/platform/errors/codes.ts";

type Json = Readonly<Record<string, unknown>>;

/** A problem document (RFC 9457), as every refusal is. */
const Problem = z.object({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string(),
  code: z.string(),
  /** The detail again. */
  error: z.string(),
});

/** What has a name of its own in the document. */
const COMPONENTS = {
  ...{ Audit: AuditView, AuditEntry: AuditEntryView, Bulk: BulkView, CallLife: CallLifeView },
  ...{ Earned: EarnedView, Endpoint: EndpointView, FailedBulk: FailedBulkView, FailedCall: FailedCallView },
  ...{
    FailedCallDetail,
    FailedFilter,
    FailedGroup: FailedGroupView,
    Flow: FlowView,
    FoundCall: FoundCallView,
    Job: JobView,
  },
  ...{ Overview: OverviewView, PaidSum, Payment: PaymentView, PaymentDetail, Problem, Rate: RateView },
  ...{ RateReading: ReadingView, RefundCase, RefundCheck: RefundCheckView, RefundFindings: RefundCheck },
  ...{ RefundExport: RefundExportView, Rejected: RejectedView, SoldJob: SoldJobView },
  ...{ SpentElsewhere: SpentElsewhereView, TokenAudit: TokenMatches },
} as const;

const names = z.registry<{ id: string }>();
for (const [id, schema] of Object.entries<z.ZodType>(COMPONENTS)) names.add(schema, { id });

/** Refusals that any route may answer, an unknown parameter among them, and that one with a body may. */
const ANY: readonly ErrorCode[] = [
  ...(["operator.unauthorized", "operator.forbidden", "operator.cross_site"] as const),
  ...(["request.malformed", "request.method_not_allowed", "request.rate_limited"] as const),
  ...(["operator.host_unknown"] as const),
  ...(["internal.unexpected", "queue.unavailable"] as const),
];
const WITH_BODY: readonly ErrorCode[] = [
  ...(["request.too_large", "request.media_type_unsupported", "request.encoding_unsupported"] as const),
];

/** Answers the document of the API. */
export function createOpenApi(version: string) {
  let document: ReturnType<typeof toOpenApi> | undefined;
  return async () => {
    document ??= toOpenApi(CONTRACT, version);
    return document;
  };
}

/** The OpenAPI document of these operations. */
export function toOpenApi(table: Table, version: string) {
  const components: Record<string, unknown> = {};
  const paths: Record<string, Record<string, unknown>> = {};
  for (const [name, operation] of Object.entries(table)) {
    const path = operation.path.replaceAll("+}", "}");
    const own = { [operation.method.toLowerCase()]: toOperation(name, operation, components) };
    paths[path] = { ...paths[path], ...own };
  }
  schemaOf(Problem, "output", components);
  return {
    openapi: "3.1.0" as const,
    info: {
      title: "Postern console",
      version,
      description:
        "Answers may get new members. Members are never renamed or removed. A member whose value is unknown is null or absent.",
    },
    security: [{ bearer: [] }, { session: [] }],
    paths,
    components: {
      schemas: Object.fromEntries(Object.entries(components).sort(([a], [b]) => (a < b ? -1 : 1))),
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer" },
        session: { type: "apiKey", in: "cookie", name: "postern" },
      },
    },
  };
}

type Components = Record<string, unknown>;

function toOperation(operationId: string, operation: Operation, components: Components): Json {
  const { summary, role, params, query, body } = operation;
  const parameters = [...parametersOf(params, "path"), ...parametersOf(query, "query")];
  return {
    operationId,
    summary,
    ...(role === "anybody" ? { security: [] } : { "x-postern-role": role }),
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
    const { asParameter, ...plain } = z.toJSONSchema(each, { io: "input", unrepresentable: "any" }) as Json;
    const { $schema: _, default: __, ...own } = plain;
    const otherwise: unknown = each instanceof z.ZodDefault ? each.def.defaultValue : undefined;
    const known = (asParameter ?? own) as Json;
    return {
      ...{ name, in: place, required: place === "path" },
      schema: { ...known, ...(otherwise !== undefined && { default: otherwise }) },
    };
  });
}

function responsesOf(operation: Operation, components: Components) {
  const { answer, file, stream, says, problems = [], params, body } = operation;
  const [type] = (file ?? stream ?? "").split(";");
  const content = answer
    ? { "application/json": { schema: schemaOf(answer, "output", components) } }
    : type && { [type]: { schema: { type: "string", format: "binary" } } };
  const good = { description: says, ...(content && { content }) };
  const responses: Record<string, unknown> = { [statusOf(operation)]: good };
  const codes = new Set<ErrorCode>([
    ...ANY,
    ...(params === undefined ? [] : (["request.not_found"] as const)),
    ...(body === undefined ? [] : WITH_BODY),
    ...problems,
  ]);
  for (const status of [...new Set([...codes].map((code) => CODES[code].status))].sort((a, b) => a - b)) {
    const of = [...codes].filter((code) => CODES[code].status === status);
    responses[status] = {
      description: of.map((code) => `\`${code}\`: ${CODES[code].title}`).join("; "),
      content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
    };
  }
  return responses;
}

/** The schema as the document has it. What has a name is put among the components. */
function schemaOf(schema: z.ZodType, io: "input" | "output", components: Components): Json {
  // In an object a schema with a name becomes a reference; alone it would stand for itself.
  const wrapped = z.toJSONSchema(z.object({ it: schema }), { io, metadata: names, unrepresentable: "any" });
  const { $defs = {}, properties = {} } = toDocument(wrapped, io) as {
    $defs?: Record<string, Json>;
    properties?: { it?: Json };
  };
  Object.assign(components, $defs);
  return properties.it ?? {};
}

/** Answers get new members, so their readers are not told that there are no others. References lead to the components. */
function toDocument(value: unknown, io: "input" | "output"): unknown {
  if (Array.isArray(value)) return value.map((each) => toDocument(each, io));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value as Json).flatMap(([name, each]) => {
    // Of a schema; a property of this name is an object.
    if (["$schema", "$id", "id"].includes(name) && typeof each === "string") return [];
    if (name === "additionalProperties" && each === false && io === "output") return [];
    if (name === "$ref") return [[name, String(each).replace("#/$defs/", "#/components/schemas/")]];
    return [[name, toDocument(each, io)]];
  });
  return Object.fromEntries(entries);
}
