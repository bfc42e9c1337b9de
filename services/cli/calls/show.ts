import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import type { CallLifeView } from "../../../shared/operator/calls.ts";
import { RESULT_WORDS } from "../../../shared/operator/calls.ts";
import { problemDetail } from "../../../shared/text/problem-detail.ts";
import { writeBody } from "../body.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { facts, jsonLine, plain, section } from "../text.ts";
import { type Operated, withOperations } from "../with-operations.ts";

export type ShowOptions = Operated & { json?: boolean; bodyOnly?: boolean; resultOnly?: boolean };

/** `postern calls show`: the life of one call, or the bytes of its body or result. 1 if it is unknown, or the bytes are not there. */
export function showCall(deps: ProgramDeps, id: string, options: ShowOptions): Promise<number> {
  return withOperations(deps, options, async ({ calls }) => {
    if (options.bodyOnly) writeBody(deps, id, await calls.body(id));
    else if (options.resultOnly) writeBody(deps, id, await calls.result(id));
    else {
      const life = await calls.show(id);
      deps.print(options.json ? jsonLine(life) : inWords(life));
    }
    return EXIT.ok;
  });
}

function inWords(life: CallLifeView): string {
  const { call_id: id, state, changed_at: changedAt, origin, payment } = life;
  const since = changedAt === null ? "" : ` since ${changedAt}`;
  const known = facts([
    ["call", id],
    ["state", `${state}${since}`],
    ["origin", origin ?? undefined],
    ["job", life.job_id === null ? undefined : `${life.job_id} of service ${life.service_id}`],
    ["queue", life.queue === null ? undefined : placeText(life.queue)],
    ["body", bodyText(life)],
    ["result", resultText(life.result)],
    ["payment", payment ? `${payment.terms.payer} (postern payments show ${id})` : undefined],
    ["endpoint", life.path ?? undefined],
    ["delivery id", life.delivery_id ?? undefined],
    ["attempts", life.attempts?.toString()],
    ["traceparent", life.traceparent ?? undefined],
    ["FORGOTTEN", life.forgotten_at === null ? undefined : FORGOTTEN],
  ]);
  const metadata = section("metadata", facts(Object.entries(life.metadata ?? {}), "  "));
  return known + section("timeline", timeline(life)) + metadata;
}

const FORGOTTEN = "by an operator: what its sender has said was deleted, and it never runs again";

function placeText({ name, as, due_at: dueAt }: NonNullable<CallLifeView["queue"]>): string {
  return `${as} in ${name}${dueAt === null ? "" : `, due ${dueAt}`}`;
}

function bodyText({
  body_kept: isKept,
  bytes,
  content_type: type,
  sha256,
}: CallLifeView): string | undefined {
  if (!isKept) return bytes === null ? undefined : `${bytes} bytes, not kept`;
  if (sha256 === null) return "what is stored is no call of this version";
  return `${bytes} bytes, ${type ?? "no content type"}, sha256 ${sha256} (--body-only)`;
}

function resultText({ what, bytes, code, title, detail }: CallLifeView["result"]): string {
  if (what === "answer") return `${bytes} bytes (--result-only)`;
  const said = [code, title, detail].filter((text) => text != null);
  return [RESULT_WORDS[what] ?? what, ...said].join("; ");
}

function timeline({ timeline: steps, attempts_before: attemptsBefore }: CallLifeView): string {
  const width = Math.max(0, ...steps.map(({ what }) => what.length));
  const lines = steps.map(
    (step) => `  ${step.at}  ${`${step.what.padEnd(width)}  ${plain(stepText(step))}`.trimEnd()}\n`,
  );
  if (attemptsBefore === 0) return lines.join("");
  const before = `  ${attemptsBefore} earlier failed ${attemptsBefore === 1 ? "attempt is" : "attempts are"} not kept\n`;
  const first = steps.findIndex(({ what }) => what === "attempt failed");
  return lines.toSpliced(Math.max(0, first), 0, before).join("");
}

/** What there is to say of a step beside its name. */
function stepText(step: CallLifeView["timeline"][number]): string {
  const reason = `${step.code}: ${problemDetail(step.reason ?? "")}`;
  switch (step.what) {
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
      return `attempt ${step.n}: ${reason} (worker ${step.worker})`;
    case "failed":
      return reason;
    case "refund exported":
      return step.export ?? "";
    case "refunded":
      return `transaction ${step.transaction}`;
    case "progress":
      return step.json ?? "";
    case "result":
      return `${step.status}, ${step.content_type ?? "no content type"}, ${step.bytes} bytes, ${byText(step)}`;
    case "result too long":
      return `${step.status}, longer than is kept, ${byText(step)}`;
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

function byText({ by }: { by?: string | undefined }): string {
  return by === "delivery" ? "delivered by the runner" : "the runner's answer";
}
