import { failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import type { Fetched, FetchedCall } from "../../../shared/queue/backend.ts";
import { callFields } from "../../../shared/queue/queue-name.ts";
import type { Alone } from "./alone.ts";
import type { Permits } from "./permits.ts";
import type { SourceOf, Station } from "./station.ts";
import type { Turn, Turns } from "./turns.ts";

/** If another worker is taking a call alone, this worker tries again after this delay. */
const ALONE_AGAIN_MS = 1000;

export type TakeParts = {
  stations: readonly Station[];
  turns: Turns<SourceOf>;
  alone: Alone;
  permits: Permits;
};

/**
 * Creates the functions that take calls. They also update what this worker knows about the queues (turns.ts): whether they
 * have calls, and how large the next one is.
 */
export function createTake(log: Logger, { stations, turns, alone, permits }: TakeParts) {
  async function take(turn: Turn<SourceOf>, token: string): Promise<FetchedCall | undefined> {
    const { source } = turn;
    const { station, backend } = source;
    const { notices } = turns;
    const permitted = permits.isNeeded(source.gate);
    if ((turn.alone || permitted) && !(await mayFetch(turn, token, permitted, notices))) {
      turns.noteFetched(source);
      return undefined;
    }
    station.lostTakes.taking(token);
    const fetched = await backend.fetch(token, permitted ? { ...turn, permitted } : turn).catch((error) => {
      turns.noteFetched(source);
      station.lostTakes.look();
      throw error;
    });
    failpoint("producer.after_fetch");
    turns.noteFetched(source, fetched.kind === "call" ? fetched.waiting : 0);
    if (fetched.kind === "large") await reserveMemory(source, fetched.bytes);
    if (fetched.kind === "alone") await prepareAlone(source, fetched.id, notices);
    if (fetched.kind === "permit") permits.noteNeeded(source.gate);
    return toNext(source, fetched, notices);
  }

  /**
   * Claims in partition 0 what the next call may need across all partitions: the right to take a call alone, and a permit. If
   * one is refused, postpones the queue and resolves with false.
   */
  async function mayFetch(
    { source, alone: isAlone }: Turn<SourceOf>,
    token: string,
    permitted: boolean,
    notices: number,
  ): Promise<boolean> {
    if (isAlone && !(await alone.claim())) return postpone(source, ALONE_AGAIN_MS, notices);
    if (!permitted) return true;
    const { station, queue, gate } = source;
    const acquired = await permits.acquire({ gate, queue, partition: station.partition.index }, token);
    return acquired.kind === "permitted" || postpone(source, acquired.againMs, notices);
  }

  function postpone(source: SourceOf, ms: number | undefined, notices: number): false {
    turns.noteEmpty(source, notices);
    if (ms !== undefined) source.station.postpone(source.queue, ms);
    return false;
  }

  /**
   * Notes the size of a large call. If this worker lacks the memory for it, puts the queue's name back for workers that may
   * have enough.
   */
  async function reserveMemory(source: SourceOf, bytes: number): Promise<void> {
    turns.noteLarge(source, bytes);
    if (!turns.isWanted(source)) await source.station.announce.later([source.queue]);
  }

  /**
   * Prepares to take a call alone. This worker takes no other call until that one has ended, so it puts the names of its
   * other ready queues back for other workers.
   */
  async function prepareAlone(source: SourceOf, callId: string, notices: number): Promise<void> {
    if (turns.isAlone) return;
    if (!(await alone.claim())) return void postpone(source, ALONE_AGAIN_MS, notices);
    if (turns.isAlone) return;
    log.warn("call.isolated", callFields(callId, source.queue));
    turns.reserveAlone(source);
    const others = turns.ready.filter((other) => other !== source);
    const usable = stations.filter(({ server }) => server.isUsable);
    await Promise.all(
      usable.map((station) => {
        const own = others.filter((other) => other.station === station);
        return station.announce.later(own.map(({ queue }) => queue));
      }),
    );
  }

  /**
   * Returns the fetched call. If the queue had none, returns undefined and marks the queue as empty. It does not mark a queue
   * that got a notice of new calls during the fetch (turns.ts). `notices` is the number of notices when the fetch began.
   */
  function toNext(source: SourceOf, fetched: Fetched | undefined, notices: number): FetchedCall | undefined {
    if (fetched?.kind === "call") return fetched;
    if (fetched?.kind !== "none") return undefined;
    turns.noteEmpty(source, notices);
    if (fetched.recheckInMs !== undefined) source.station.dueIn(fetched.recheckInMs);
    return undefined;
  }

  return { take, toNext };
}
