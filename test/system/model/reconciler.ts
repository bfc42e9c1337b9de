import { type Action, chance, step } from "./action.ts";
import type { Protocol } from "./protocol.ts";
import { add, enqueueSettled } from "./queue.ts";
import { hasEvidence, jobIsMissing, move, type Reconciler, type State, withReconciler } from "./state.ts";

/**
 * Actions of one reconciler. It holds no lease: others run at the same time, and its knowledge may be outdated when it
 * acts.
 */
export function reconcilerActions(i: number, protocol: Protocol): Action[] {
  const at = (s: State, seen: Reconciler): boolean => s.reconcilers[i] === seen;
  const to = (s: State, next: Reconciler): State => withReconciler(s, i, next);
  const named = (what: string): string => `reconciler ${i + 1}: ${what}`;

  const seesPaid = (s: State): boolean =>
    protocol.needsTransferAsProof ? hasEvidence(s) && !s.paidBeforeClaim : s.nonce !== "unused";

  const sees = (what: string, next: Reconciler, when: (s: State) => boolean): Action =>
    step(named(what), { when: (s) => at(s, "idle") && when(s), does: (s) => to(s, next) });

  const acts = (what: string, seen: Reconciler, does: (s: State) => State): Action =>
    step(named(what), { when: (s) => at(s, seen), does });

  // With a wrong clock, the authorization may appear expired at any time.
  const isOver = (s: State): boolean => s.past || !protocol.expiresByBlockTime;

  const findsItOver = protocol.expiresByBlockTime
    ? "finds a finalized block past validBefore"
    : "believes a clock that says validBefore is past";

  const headThenLogs: Action[] = [
    sees(findsItOver, "saw-past", (s) => s.record === "SETTLING" && isOver(s)),
    acts("looks for the payment in the logs", "saw-past", (s) =>
      to(s, seesPaid(s) ? "saw-paid" : "saw-unpaid"),
    ),
  ];

  const logsThenHead: Action[] = [
    sees("finds no payment in the logs", "saw-no-logs", (s) => s.record === "SETTLING" && !seesPaid(s)),
    step(named(findsItOver), {
      when: (s) => at(s, "saw-no-logs") && isOver(s),
      does: (s) => to(s, "saw-unpaid"),
    }),
  ];

  const record = (s: State): State =>
    protocol.addsAsItSettles
      ? to(enqueueSettled(s, protocol), "idle")
      : to(move(s, ["SETTLING"], "QUEUED"), s.record === "SETTLING" ? "noted" : "idle");

  const addAfterwards = acts("adds the job of the record that it has marked QUEUED", "noted", (s) =>
    to(add(s, s.recordBody, protocol), "idle"),
  );

  return [
    sees(
      "finds the payment of a SETTLING record on the chain",
      "saw-paid",
      (s) => s.record === "SETTLING" && seesPaid(s),
    ),
    acts("records the settlement", "saw-paid", record),
    ...(protocol.addsAsItSettles ? [] : [addAfterwards]),
    ...(protocol.readsHeadBeforeLogs ? headThenLogs : logsThenHead),
    acts("marks it VOID", "saw-unpaid", (s) => to(move(s, ["SETTLING"], "VOID"), "idle")),
    // Sending a settle again changes nothing in this model: the transaction may land from the first dispatch on.
    sees(
      "finds a SETTLING record that is not paid yet",
      "saw-undispatched",
      (s) => s.record === "SETTLING" && !s.dispatched && !s.past && !seesPaid(s),
    ),
    acts("sends settle again", "saw-undispatched", (s) => to({ ...s, dispatched: true }, "idle")),
    chance(named("reads a QUEUED record"), {
      when: (s) => protocol.readdsMissingJobs && at(s, "idle") && s.record === "QUEUED",
      does: (s) => to(s, "saw-queued"),
    }),
    acts("looks for its job", "saw-queued", (s) => to(s, jobIsMissing(s) ? "saw-missing" : "idle")),
    sees(
      "finds a QUEUED record whose job is missing",
      "saw-missing",
      (s) => protocol.readdsMissingJobs && s.record === "QUEUED" && jobIsMissing(s),
    ),
    acts("adds the missing job while the record is QUEUED", "saw-missing", (s) =>
      to(s.record === "QUEUED" ? add(s, s.recordBody, protocol) : s, "idle"),
    ),
  ];
}
