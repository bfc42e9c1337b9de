import { type Action, chance } from "./action.ts";
import { chainActions } from "./chain.ts";
import { gatewayActions } from "./gateway.ts";
import type { Bounds, Protocol } from "./protocol.ts";
import { reconcilerActions } from "./reconciler.ts";
import { type Body, IDLE_WORKER, type State, withGateway, withReconciler } from "./state.ts";
import { lossActions, workerActions } from "./worker.ts";

/*
 * Models the paid path as a transition system. There are one authorization, two gateway replicas that may get its
 * header with bodies A and B, reconcilers without a lease, one worker, a runner, a facilitator and a chain. Every read
 * or write of Redis, the chain or another process is a separate step. Between two steps, any other actor may move or be
 * killed.
 *
 * Bounded (`Bounds`): the number of times the client sends the header, the number of kills, and the number of
 * reconcilers. Also one drain, one top-up and one cancellation.
 *
 * Abstracted:
 *
 * A wrong clock is a check that may answer either way at any time.
 *
 * A facilitator may lose, delay or repeat a settle. So its transaction may land at any time after the first dispatch,
 * or never. No actor waits for its late replies.
 *
 * A Redis write whose reply is lost is a kill just after the write.
 *
 * Polling that finds nothing is not a step.
 *
 * Evidence has no lower block bound, so only verify excludes a payment that was spent earlier.
 *
 * Left out:
 *
 * - reorgs deeper than the configured depth
 *
 * - acknowledged writes that Redis loses (failover, disk)
 *
 * - a facilitator that lies about success
 *
 * - a runner that refuses for good (FAILED, DISCARDED), and REVIEW
 *
 * - two journals with the same `payTo`
 *
 * - a process that pauses longer than a record is kept
 *
 * Liveness means that every quiescent state is good, and that fair steps contain no cycle.
 */
export function modelOf(protocol: Protocol, bounds: Bounds): readonly Action[] {
  const reconcilers = protocol.reconciles ? [0, 1].slice(0, bounds.reconcilers) : [];
  return [
    ...[0, 1].flatMap((i) => [...clientActions(i, bounds), ...gatewayActions(i, protocol)]),
    ...chainActions,
    ...reconcilers.flatMap((i) => reconcilerActions(i, protocol)),
    ...workerActions(protocol),
    ...crashActions(bounds),
    ...lossActions(bounds),
    ...expiryActions(protocol),
  ];
}

function clientActions(i: number, { sends }: Bounds): Action[] {
  const send = (body: Body): Action =>
    chance(`client: sends the header with body ${body} to gateway ${i + 1}`, {
      when: (s) => s.gateways[i]!.at === "idle" && s.sends < sends && (body === "A" || s.sends > 0),
      does: (s) => withGateway({ ...s, sends: s.sends + 1 }, i, { at: "received", body }),
    });
  return [send("A"), send("B")];
}

/** Kills and restarts an actor (kill -9). Its memory is lost; Redis, the chain and the runner keep their data. */
function crashActions({ crashes, reconcilers }: Bounds): Action[] {
  const kill = (name: string, isBusy: (s: State) => boolean, restart: (s: State) => State): Action =>
    chance(`kill -9: ${name}`, {
      when: (s) => s.crashes < crashes && isBusy(s),
      does: (s) => ({ ...restart(s), crashes: s.crashes + 1 }),
    });
  return [
    ...[0, 1].map((i) =>
      kill(
        `gateway ${i + 1}`,
        (s) => s.gateways[i]!.at !== "idle",
        (s) => withGateway(s, i, { at: "idle", body: "A" }),
      ),
    ),
    ...[0, 1].slice(0, reconcilers).map((i) =>
      kill(
        `reconciler ${i + 1}`,
        (s) => s.reconcilers[i] !== "idle",
        (s) => withReconciler(s, i, "idle"),
      ),
    ),
    kill(
      "worker",
      (s) => s.worker.at !== "idle",
      (s) => ({ ...s, worker: IDLE_WORKER }),
    ),
  ];
}

function expiryActions({ openRecordsNeverExpire }: Protocol): Action[] {
  if (openRecordsNeverExpire) return [];
  return [
    chance("redis: an open record expires", {
      when: (s) => s.record === "SETTLING",
      does: (s) => ({ ...s, record: "none" }),
    }),
  ];
}
