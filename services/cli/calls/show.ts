import { type CallLife, createReadBody, createReadLife, type LifeStep } from "../../../shared/calls/life.ts";
import { AppError } from "../../../shared/errors/app-error.ts";
import { WEBHOOK_DELIVERY_ID, WEBHOOK_PATH } from "../../../shared/job-call/job-call.ts";
import { idsOfKey } from "../../../shared/job-call/job-ids.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { createResults } from "../../../shared/results/store.ts";
import { problemDetail } from "../../../shared/text/problem-detail.ts";
import { toIso } from "../../../shared/time/iso.ts";
import { writeBody } from "../body.ts";
import { toJson as paymentJson } from "../payments/list.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { facts, jsonLine, plain, section } from "../text.ts";
import { withRedis } from "../with-redis.ts";

export type ShowOptions = { configDir: string; json?: boolean; bodyOnly?: boolean; resultOnly?: boolean };

/** `postern calls show`: the life of one call, or the bytes of its body or result. 1 if it is unknown, or the bytes are not there. */
export function showCall(deps: ProgramDeps, id: string, options: ShowOptions): Promise<number> {
  return withRedis(deps, options, async ({ partition }) => {
    if (options.bodyOnly) writeBody(deps, id, await bodyOf(partition, id));
    else if (options.resultOnly) writeBody(deps, id, await resultOf(partition, id));
    else {
      const life = await lifeOf(partition, id);
      deps.print(options.json ? jsonLine(toJson(life)) : inWords(life));
    }
    return EXIT.ok;
  });
}

async function lifeOf(partition: Partition, id: string): Promise<CallLife> {
  const life = await createReadLife(partition)(id);
  if (life !== undefined) return life;
  const reason = `${id}: nothing is known of such a call (any more); one that has ended is remembered for console.history_secs`;
  throw new AppError("call.unknown", { reason });
}

async function bodyOf(partition: Partition, id: string): Promise<Buffer> {
  const body = await createReadBody(partition)(id);
  if (body !== undefined) return body;
  const { state } = await lifeOf(partition, id);
  throw new Error(`${id}: its body is not kept; the call is ${state}`);
}

async function resultOf(partition: Partition, id: string): Promise<Buffer> {
  const read = await createResults(partition).read(id);
  if (read.kind === "answer") return read.body;
  await lifeOf(partition, id);
  throw new Error(`${id}: it has no result with a body: ${RESULT[read.kind]}`);
}

const RESULT: Record<CallLife["result"]["kind"], string> = {
  answer: "kept",
  too_long: "the runner's answer was longer than is kept",
  failure: "its runner delivered that it failed for good",
  failed: "it failed for good",
  pending: "not there yet",
  gone: "kept no more",
  "none kept": "its job keeps none",
  unknown: "not there yet",
};

function toJson(life: CallLife) {
  const { id, state, changedAt, origin, job, place, head, steps, attemptsBefore, result, payment } = life;
  const ids = job === undefined ? undefined : idsOfKey(job);
  return {
    call_id: id,
    state,
    changed_at: isoOrNull(changedAt),
    origin: origin ?? null,
    service_id: ids?.serviceId ?? null,
    job_id: ids?.jobIndex ?? null,
    queue: place === undefined ? null : { name: place.queue, as: place.as, due_at: isoOrNull(place.dueAt) },
    timeline: steps.map(({ kind, at, ...more }) => ({ at: toIso(at), what: kind, ...snakeCased(more) })),
    attempts_before: attemptsBefore,
    content_type: head?.content_type ?? null,
    bytes: head?.bytes ?? payment?.terms.body_bytes ?? null,
    sha256: head?.sha256 ?? null,
    traceparent: head?.traceparent ?? null,
    metadata: head?.metadata ?? null,
    path: head?.metadata[WEBHOOK_PATH] ?? life.remembered?.endpoint ?? null,
    delivery_id: head?.metadata[WEBHOOK_DELIVERY_ID] ?? life.remembered?.deliveryId ?? null,
    attempts: life.remembered?.attempts ?? null,
    body_kept: life.storedBytes > 0,
    result: { what: result.kind, ...(result.kind === "failed" && failureJson(result)) },
    payment: payment === undefined ? null : paymentJson(payment),
    forgotten_at: isoOrNull(life.forgottenAt),
  };
}

function failureJson({ code, title, detail }: Extract<CallLife["result"], { kind: "failed" }>) {
  return { code, title: title ?? null, detail: detail ?? null };
}

function isoOrNull(at: number | undefined): string | null {
  return at === undefined ? null : toIso(at);
}

function snakeCased(fields: object): Record<string, unknown> {
  const named = Object.entries(fields).map(([name, value]) => [
    name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    value as unknown,
  ]);
  return Object.fromEntries(named) as Record<string, unknown>;
}

function inWords(life: CallLife): string {
  const { id, state, changedAt, origin, job, place, head, result, payment } = life;
  const since = changedAt === undefined ? "" : ` since ${toIso(changedAt)}`;
  const known = facts([
    ["call", id],
    ["state", `${state}${since}`],
    ["origin", origin],
    ["job", job === undefined ? undefined : jobText(job)],
    ["queue", place && placeText(place)],
    ["body", bodyText(life)],
    ["result", resultText(result)],
    ["payment", payment && `${payment.terms.payer} (postern payments show ${id})`],
    ["endpoint", life.remembered?.endpoint],
    ["delivery id", life.remembered?.deliveryId],
    ["attempts", life.remembered?.attempts.toString()],
    ["traceparent", head?.traceparent],
    ["FORGOTTEN", life.forgottenAt === undefined ? undefined : FORGOTTEN],
  ]);
  const metadata = section("metadata", facts(Object.entries(head?.metadata ?? {}), "  "));
  return known + section("timeline", timeline(life)) + metadata;
}

const FORGOTTEN = "by an operator: what its sender has said was deleted, and it never runs again";

function jobText(job: string): string {
  const { serviceId, jobIndex } = idsOfKey(job);
  return `${jobIndex} of service ${serviceId}`;
}

function placeText({ queue, as, dueAt }: NonNullable<CallLife["place"]>): string {
  return `${as} in ${queue}${dueAt === undefined ? "" : `, due ${toIso(dueAt)}`}`;
}

function bodyText({ head, storedBytes, payment }: CallLife): string | undefined {
  if (storedBytes === 0) return payment && `${payment.terms.body_bytes} bytes, not kept`;
  if (head === undefined) return `${storedBytes} bytes are stored, and are no call of this version`;
  return `${head.bytes} bytes, ${head.content_type ?? "no content type"}, sha256 ${head.sha256} (--body-only)`;
}

function resultText(result: CallLife["result"]): string {
  if (result.kind === "answer") return `${result.bytes} bytes (--result-only)`;
  if (result.kind !== "failed") return RESULT[result.kind];
  const said = [result.title, result.detail].filter((text) => text !== undefined);
  return [RESULT.failed, result.code, ...said].join("; ");
}

function timeline({ steps, attemptsBefore }: CallLife): string {
  const rows = steps.map((step) => {
    const text = plain(stepText(step));
    return { at: toIso(step.at), what: step.kind, text };
  });
  const width = Math.max(0, ...rows.map(({ what }) => what.length));
  const lines = rows.map(({ at, what, text }) => `  ${at}  ${`${what.padEnd(width)}  ${text}`.trimEnd()}\n`);
  if (attemptsBefore === 0) return lines.join("");
  const before = `  ${attemptsBefore} earlier failed ${attemptsBefore === 1 ? "attempt is" : "attempts are"} not kept\n`;
  const first = steps.findIndex(({ kind }) => kind === "attempt failed");
  return lines.toSpliced(Math.max(0, first), 0, before).join("");
}

/** What there is to say of a step beside its name. */
function stepText(step: LifeStep): string {
  switch (step.kind) {
    case "claimed":
      return `verified by ${step.facilitator}, and on disk before it was settled`;
    case "settle sent again":
      return `the last of ${step.dispatches} times`;
    case "settled":
      return `transaction ${step.transaction}, said by the ${step.by}${step.proven ? ", shown by the chain" : ""}`;
    case "void":
    case "in review":
      return step.reason ?? "";
    case "attempt failed":
      return `attempt ${step.n}: ${step.code}: ${problemDetail(step.reason)} (worker ${step.worker})`;
    case "failed":
      return `${step.code}: ${problemDetail(step.reason)}`;
    case "refund exported":
      return step.export;
    case "refunded":
      return `transaction ${step.transaction}`;
    case "progress":
      return step.json;
    case "result":
      return `${step.status}, ${step.contentType ?? "no content type"}, ${step.bytes} bytes, ${BY[step.by]}`;
    case "result too long":
      return `${step.status}, longer than is kept, ${BY[step.by]}`;
    case "failure delivered":
      return [step.status, step.title, step.detail].filter((part) => part !== undefined).join("; ");
    case "callback":
      return `${step.ending} to its receiver: ${step.state}, ${step.attempts} attempts (${step.id})`;
    case "injected late":
      return "after its refund was exported";
    default:
      return "";
  }
}

const BY = { answer: "the runner's answer", delivery: "delivered by the runner" } as const;
