import { type Action, chance } from "./action.ts";
import { chainActions } from "./chain.ts";
import { gatewayActions } from "./gateway.ts";
import type { Bounds, Protocol } from "./protocol.ts";
import { reconcilerActions } from "./reconciler.ts";
import { type Body, IDLE_WORKER, type State, withGateway, withReconciler } from "./state.ts";
import { lossActions, workerActions } from "./worker.ts";

/*
 * The paid path as a transition system: one authorization, two gateway replicas that may get its header with bodies A and B,
 * reconcilers without a lease, one worker, a runner, a facilitator, a chain. Every read of or write to Redis, the chain or
 * another process is a step of its own; between two steps any other actor may move or be killed.
 *
 * Bounded: how often the client sends the header, how many kills there are, how many reconcilers run (`Bounds`); one drain
 * and one top-up; one cancellation.
 *
 * Abstracted: a clock that may be wrong is a check that may answer either way at any time. A facilitator that lost, delayed
 * or repeated a settle is one whose transaction may land at any time after the first dispatch, or never; its late replies
 * find no one waiting. A Redis write whose reply is lost is a kill just after the write. Polling that finds nothing is no step.
 * Evidence has no lower bound of blocks, so that a payment spent earlier is kept out by verify alone.
 *
 * Left out: reorgs deeper than the configured depth, Redis losing what it acknowledged (fail-over, disk), a facilitator
 * that lies about success, a runner that refuses for good (FAILED, DISCARDED), REVIEW, two journals that share a `payTo`,
 * a process that stands still for longer than a record is kept. Liveness is "every quiescent state is good", and fair
 * steps do not go round in circles.
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

/** kill -9 and restart: the memory is lost, what is in Redis, on the chain and at the runner stays. */
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
