import type { CallLifeView } from "../../../shared/console/calls.ts";
import { bytesOf } from "../../../shared/console/contract/operation.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { problemDetail } from "../../../shared/platform/text/problem-detail.ts";
import { traceIdOf } from "../../../shared/platform/text/trace-id.ts";
import { writeBody } from "../body.ts";
import { callIdOf } from "../call-ids.ts";
import { saidBy } from "../payments/show.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted, facts, jsonLine, plain, section, withAge } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";
import { stateWord } from "./list.ts";

export type ShowOptions = OperationTarget & { json?: boolean; bodyOnly?: boolean; resultOnly?: boolean };

/**
 * `postern calls show`: prints the state of one call and all steps since its creation. With --body-only or
 * --result-only, prints only the bytes of its body or result. Exit code 1 if the call is unknown, or if these bytes are
 * not kept.
 */
export function showCall(deps: ProgramDeps, named: string, options: ShowOptions): Promise<number> {
  return withOperations(deps, options, async (operations) => {
    const id = await callIdOf(operations, named);
    if (options.bodyOnly) writeBody(deps, id, await bytesOf(await operations.getCallBody({ call_id: id })));
    else if (options.resultOnly)
      writeBody(deps, id, await bytesOf(await operations.getCallResult({ call_id: id })));
    else {
      const life = await operations.getCall({ call_id: id });
      deps.print(options.json ? jsonLine(life) : inWords(life));
    }
    return EXIT.ok;
  });
}

function inWords(life: CallLifeView): string {
  const { call_id: id, origin, payment } = life;
  const known = facts([
    ["call", id],
    ["state", stateText(life)],
    ["origin", origin ?? undefined],
    ["job", life.job_id === null ? undefined : `${life.service_id}/${life.job_id}`],
    ["body", bodyText(life)],
    ["result", resultText(life.result)],
    ["payer", payment ? `${payment.terms.payer} (postern payments show ${id})` : undefined],
    ["endpoint", life.endpoint ?? undefined],
    ["replay of", life.replay_of ?? undefined],
    ["delivery id", life.delivery_id ?? undefined],
    ["attempts", attemptsText(life)],
    ["traceparent", life.traceparent ?? undefined],
    ["trace id", life.traceparent === null ? undefined : traceIdOf(life.traceparent)],
    ["FORGOTTEN", life.forgotten_at === null ? undefined : FORGOTTEN],
  ]);
  const metadata = section("metadata", facts(Object.entries(life.metadata ?? {}), "  "));
  return known + section("timeline", timeline(life)) + metadata;
}

const FORGOTTEN = "by an operator: the data from its sender was deleted, and the call never runs again";

/**
 * Describes the state of a call. For a queued call, this is the state of its entry in the queue, such as waiting,
 * delayed or in flight.
 */
function stateText({ state, changed_at: changedAt, queue }: CallLifeView): string {
  const since = changedAt === null ? "" : ` since ${withAge(changedAt)}`;
  if (queue === null && state === "queued") return `missing: its queue lost it before it ran${since}`;
  if (queue === null || queue.as === state) return `${stateWord(state)}${since}`;
  const due = queue.due_at === null ? "" : ` until ${withAge(queue.due_at)}`;
  if (queue.as === "delayed") return `${stateWord(queue.as)}${since}${due}`;
  const recorded = state === "queued" && since === "" ? "" : `, ${state}${since}`;
  return `${stateWord(queue.as)}${due}${recorded}`;
}

function bodyText({
  body_kept: isKept,
  bytes,
  content_type: type,
  sha256,
}: CallLifeView): string | undefined {
  if (!isKept) return bytes === null ? undefined : `${counted(bytes, "byte")}, no longer kept`;
  if (sha256 === null) return "the stored data is unreadable";
  return `${counted(bytes ?? 0, "byte")}, ${type ?? "no content type"}, sha256 ${sha256} (--body-only prints it)`;
}

function resultText({ reason, bytes }: CallLifeView["result"]): string {
  return reason === null ? `${counted(bytes ?? 0, "byte")} (--result-only prints it)` : `none: ${reason}`;
}

function attemptsText({ attempts, replays }: CallLifeView): string | undefined {
  if (attempts === null || attempts === 0) return undefined;
  return `${attempts}${replays === 0 ? "" : ` (${counted(replays, "replay")})`}`;
}

function timeline({ timeline: steps }: CallLifeView): string {
  const width = Math.max(0, ...steps.map(({ what }) => what.length));
  const lines = steps.map((step) => {
    const line = `  ${step.at}  ${`${step.what.padEnd(width)}  ${plain(stepText(step))}`.trimEnd()}\n`;
    return `${missingText(step.missing)}${line}`;
  });
  return lines.join("");
}

function missingText(missing = 0): string {
  if (missing === 0) return "";
  return `  ${counted(missing, "earlier attempt")}, no longer kept\n`;
}

/** Formats the details of one step of the timeline. */
function stepText(step: CallLifeView["timeline"][number]): string {
  const reason = `${step.code}: ${problemDetail(step.reason ?? "")}`;
  switch (step.what) {
    case "claimed":
      return `payment verified by ${step.facilitator}; the whole call is on disk before any money moves`;
    case "settle sent again":
      return `${step.dispatches} times in total`;
    case "settled":
      return `transaction ${step.transaction}, ${saidBy(step.by, step.proven, step.reason)}`;
    case "void":
    case "in review":
      return step.reason ?? "";
    case "attempt failed":
      return `attempt ${step.n}: ${reason} (producer ${step.worker})`;
    case "attempt lost":
      return `attempt ${step.n}: no outcome was recorded; the runner may have received the call`;
    case "injected":
      return step.n === undefined ? "" : `attempt ${step.n}`;
    case "replayed":
    case "run early":
    case "discarded":
      return step.by === undefined ? "" : actText(step.by, step.reason);
    case "failed":
      return reason;
    case "refund exported":
      return step.export ?? "";
    case "refunded":
      return `transaction ${step.transaction}`;
    case "progress":
      return step.json ?? "";
    case "result":
      return `${step.status}, ${step.content_type ?? "no content type"}, ${counted(step.bytes ?? 0, "byte")}, ${byText(step)}`;
    case "result too long":
      return `${step.status}, too long to keep, ${byText(step)}`;
    case "failure delivered":
      return [step.status, step.title, step.detail].filter((part) => part !== undefined).join("; ");
    case "callback":
      return `${step.id} reports ${step.ending}: ${stateWord(step.state ?? "")}, ${counted(step.attempts ?? 0, "attempt")}`;
    case "injected late":
      return "after its refund was exported";
    default:
      return "";
  }
}

function actText(by: string, reason: string | undefined): string {
  return reason === undefined ? `by ${by}` : `by ${by}: ${reason}`;
}

function byText({ by }: { by?: string | undefined }): string {
  return by === "delivery" ? "sent by the runner" : "in the runner's answer";
}
