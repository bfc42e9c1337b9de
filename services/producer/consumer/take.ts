import { failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import type { Fetched, FetchedCall } from "../../../shared/queue/backend.ts";
import { callFields } from "../../../shared/queue/queue-name.ts";
import type { Alone } from "./alone.ts";
import type { Permits } from "./permits.ts";
import type { SourceOf, Station } from "./station.ts";
import type { Turn, Turns } from "./turns.ts";

/** When a worker that may not take a call alone looks again. */
const ALONE_AGAIN_MS = 1000;

export type TakeParts = {
  stations: readonly Station[];
  turns: Turns<SourceOf>;
  alone: Alone;
  permits: Permits;
};

/** Takes calls, and learns of their queues. */
export function createTake(log: Logger, { stations, turns, alone, permits }: TakeParts) {
  async function take(turn: Turn<SourceOf>, token: string): Promise<FetchedCall | undefined> {
    const { source } = turn;
    const { station, backend } = source;
    const { told } = turns;
    const permitted = permits.isNeeded(source.gate);
    if ((turn.alone || permitted) && !(await mayFetch(turn, token, permitted, told))) {
      turns.fetched(source);
      return undefined;
    }
    station.lostTakes.taking(token);
    const fetched = await backend.fetch(token, permitted ? { ...turn, permitted } : turn).catch((error) => {
      turns.fetched(source);
      station.lostTakes.look();
      throw error;
    });
    failpoint("producer.after_fetch");
    turns.fetched(source, fetched.kind === "call" ? fetched.waiting : 0);
    if (fetched.kind === "large") await makeRoom(source, fetched.bytes);
    if (fetched.kind === "alone") await beAlone(source, fetched.id, told);
    if (fetched.kind === "permit") permits.need(source.gate);
    return toNext(source, fetched, told);
  }

  /** Whether the rules over all partitions let the next call be taken. If not, its queue is postponed. */
  async function mayFetch(
    { source, alone: isAlone }: Turn<SourceOf>,
    token: string,
    permitted: boolean,
    told: number,
  ): Promise<boolean> {
    if (isAlone && !(await alone.claim())) return putOff(source, ALONE_AGAIN_MS, told);
    if (!permitted) return true;
    const { station, queue, gate } = source;
    const acquired = await permits.acquire({ gate, queue, partition: station.partition.index }, token);
    return acquired.kind === "permitted" || putOff(source, acquired.againMs, told);
  }

  function putOff(source: SourceOf, ms: number | undefined, told: number): false {
    turns.none(source, told);
    if (ms !== undefined) source.station.putOff(source.queue, ms);
    return false;
  }

  /** If there is no room now, another worker may have some. */
  async function makeRoom(source: SourceOf, bytes: number): Promise<void> {
    turns.large(source, bytes);
    if (!turns.isWanted(source)) await source.station.tell.later([source.queue]);
  }

  /** Meanwhile other workers go on with the queues that this one knows of. */
  async function beAlone(source: SourceOf, callId: string, told: number): Promise<void> {
    if (turns.isAlone) return;
    if (!(await alone.claim())) return void putOff(source, ALONE_AGAIN_MS, told);
    if (turns.isAlone) return;
    log.warn("call.isolated", callFields(callId, source.queue));
    turns.alone(source);
    const others = turns.ready.filter((other) => other !== source);
    const usable = stations.filter(({ server }) => server.isUsable);
    await Promise.all(
      usable.map((station) => {
        const own = others.filter((other) => other.station === station);
        return station.tell.later(own.map(({ queue }) => queue));
      }),
    );
  }

  /** The call, if there is one. If the queue has none, it has had none since `told`. */
  function toNext(source: SourceOf, fetched: Fetched | undefined, told: number): FetchedCall | undefined {
    if (fetched?.kind === "call") return fetched;
    if (fetched?.kind !== "none") return undefined;
    turns.none(source, told);
    if (fetched.recheckInMs !== undefined) source.station.dueIn(fetched.recheckInMs);
    return undefined;
  }

  return { take, toNext };
}
