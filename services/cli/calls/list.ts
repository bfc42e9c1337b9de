import type { CallSearch } from "../../../shared/call-search/found-call.ts";
import type { FoundCallView, CallSearch as Search } from "../../../shared/console/calls.ts";
import type { RejectedView } from "../../../shared/console/rejected.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { problemDetail } from "../../../shared/platform/text/problem-detail.ts";
import { toIso } from "../../../shared/platform/time/iso.ts";
import { refuseUnknownPath } from "../endpoints/unknown-path.ts";
import { createListing } from "../listing.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { age, counted, toSeconds } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

export type ListOptions = Omit<CallSearch, "id"> &
  OperationTarget & { call?: string; limit: number; facets?: boolean; json?: boolean };

const PAGE_MAX = 500;

/**
 * `postern calls list`: prints the matching calls, newest first. The search covers calls in the queues, failed calls,
 * paid calls, and the history of ended calls.
 */
export function listCalls(deps: ProgramDeps, options: ListOptions): Promise<number> {
  const { limit } = options;
  const search = toSearch(options);
  return withOperations(deps, options, async (operations) => {
    const listing = createListing<FoundCallView>(deps, {
      columns: [
        { heading: "CALL" },
        { heading: "UPDATED" },
        { heading: "AGE", alignRight: true },
        { heading: "STATE", tone: (state) => (state === "failed" ? "bad" : undefined) },
        { heading: "ORIGIN", cutTo: 16 },
        { heading: "JOB" },
        { heading: "DETAILS", cutTo: 24 },
        { heading: "ATTEMPTS", isWide: true },
        { heading: "EVENT", isWide: true },
        { heading: "DELIVERY", isWide: true },
        { heading: "PAYER", isWide: true },
        { heading: "TRANSACTION", isWide: true },
      ],
      toCells,
      toJson: (call) => call,
      toName: ({ id }) => id,
    });
    const found: Found = { shown: 0, next: null, isComplete: true, isUnlisted: false };
    const rejected: RejectedView[] = [];
    do {
      const wanted = limit === 0 ? PAGE_MAX : Math.min(PAGE_MAX, limit - found.shown);
      const page = await operations.listCalls({ ...search, limit: wanted, cursor: found.next ?? undefined });
      for (const call of page.calls) listing.add(call);
      rejected.push(...page.rejected);
      found.shown += page.calls.length;
      found.next = page.next;
      found.isComplete &&= page.is_complete;
      found.isUnlisted = page.is_unlisted;
    } while (found.next !== null && found.shown !== limit);
    if (found.shown === 0) {
      const refused = await refuseUnknownPath(deps, options.endpoint, operations);
      if (refused !== undefined) return refused;
    }
    listing.end(foundText(found));
    deps.note(rejected.map(rejectedText).join(""));
    return EXIT.ok;
  });
}

function rejectedText({ id }: RejectedView): string {
  return `${id} is a refused request, not a call: postern rejected show ${id} shows it\n`;
}

type Found = { shown: number; next: string | null; isComplete: boolean; isUnlisted: boolean };

export function foundText({ shown, next, isComplete, isUnlisted }: Found): string {
  const more = next === null ? "" : "; there are more (--limit 0 lists all)";
  return `${counted(shown, "call")} found${more}${isComplete ? "" : isUnlisted ? UNLISTED : CUT}`;
}

const UNLISTED =
  "; a call in this state may be found only by its id (--call), or by --endpoint and --delivery-id together";
const CUT =
  "; the search stopped before it had checked every call (to find the rest, narrow the search, for example by job or time)";

export function toSearch({ deliveryId, since, until, ...asked }: ListOptions): Search {
  const { text: q, call: id, endpoint, event, code, payer, transaction, origin, job, state } = asked;
  return {
    q,
    id,
    event,
    code,
    endpoint,
    payer,
    transaction,
    origin,
    job,
    state,
    delivery_id: deliveryId,
    since: since === undefined ? undefined : toIso(since),
    until: until === undefined ? undefined : toIso(until),
  };
}

function toCells(call: FoundCallView): string[] {
  const { id, at, state, origin, endpoint, job } = call;
  const from = endpoint === null ? (origin ?? "-") : `${origin ?? "-"} ${endpoint}`;
  return [id, toSeconds(at), age(at), stateWord(state), from, job ?? "-", detailOf(call), ...wideCells(call)];
}

function wideCells({
  attempts,
  event,
  delivery_id: deliveryId,
  payer,
  transaction,
}: FoundCallView): string[] {
  return [attempts?.toString() ?? "-", event ?? "-", deliveryId ?? "-", payer ?? "-", transaction ?? "-"];
}

/** Returns the word for a call's state in output for people. JSON and --state use the name that Redis stores. */
export function stateWord(state: string): string {
  return state === "active" ? "in flight" : state;
}

/**
 * Returns the text of the last column: the call's last error. Without an error, it is the payer and transaction,
 * or the sender's id of the delivery.
 */
function detailOf(call: FoundCallView): string {
  const { state, code, reason, delivery_id: deliveryId, payer, transaction } = call;
  if (code !== null)
    return `${state === "failed" ? "" : "last error "}${code}: ${problemDetail(reason ?? "")}`;
  if (payer !== null) return `paid by ${payer}${transaction === null ? "" : `, ${transaction}`}`;
  return deliveryId === null ? "-" : `delivery ${deliveryId}`;
}
