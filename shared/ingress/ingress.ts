import type { Origin } from "../call/origin.ts";
import { createChanges } from "../call/results/changes.ts";
import { createResults } from "../call/results/store.ts";
import { toProxyOptions } from "../config/postern-toml.ts";
import { toAskOptions } from "../config/results-toml.ts";
import { createBodyBudget } from "../http/body-budget.ts";
import { createClientAddressOf } from "../http/client-address.ts";
import type { CallsHost } from "../part/host.ts";
import type { ComposedServer } from "../part/part.ts";
import { systemClock } from "../platform/time/clock.ts";
import { redisClock } from "../redis/clock.ts";
import { firstCheckOf } from "../redis/durable.ts";
import { LargeTurns } from "../redis/large-turns.ts";
import { byCall, type Partitions } from "../redis/partition.ts";
import { Admission } from "./admission.ts";
import { createAwaitResults } from "./await-result.ts";
import { createCallStreams } from "./call-streams.ts";
import type { ResultWrites } from "./deliveries.ts";
import { openIngressPartition } from "./ingress-partition.ts";

/** A gateway of either kind, with the parts that its process uses. */
export type Gateway = ComposedServer & ReturnType<typeof openIngress>["gateway"];

type IngressHost = Pick<CallsHost, "postern" | "partitions" | "log" | "clock" | "deployments">;

/**
 * Opens the parts that both kinds of gateway need. They admit calls, write them to the queues, limit requests that are
 * not verified yet, and let clients read results. `readSettings` runs with each check of a partition, once a second,
 * and gets the partition's index.
 */
export function openIngress(
  origin: Origin,
  host: IngressHost,
  readSettings?: (index: number) => Promise<void>,
) {
  const { postern, log, clock = systemClock } = host;
  const largeTurns = new LargeTurns();
  const partitions = host.partitions.map((partition, index) =>
    openIngressPartition(partition, {
      ...host,
      origin,
      largeTurns,
      deployment: host.deployments?.all[index],
      ...(readSettings && { readSettings: () => readSettings(index) }),
    }),
  );
  const clientAddressOf = createClientAddressOf(toProxyOptions(postern));
  const bodies = createBodyBudget({
    bytesMax: postern.http.body_budget_bytes,
    addressOf: clientAddressOf,
    log,
  });
  const admission = new Admission(partitions);
  const { closeChanges, ...asked } = openResults(host.partitions, { postern, clock, log });
  const { waits, streams } = asked;
  const endWaits = (): void => {
    waits.end();
    streams.end();
  };
  return {
    ...asked,
    /** Partitions to which the gateway writes calls. */
    partitions,
    clientAddressOf,
    bodies,
    admission,
    /**
     * Redis' clock. Use it for times that are stored in Redis or that several processes use, and to compare with such
     * times.
     */
    redisTime: host.clock ?? redisClock(host.partitions.control.redis).now,
    firstCheck: firstCheckOf(partitions.all.map(({ durable }) => durable)),
    /** Members that the process of the gateway uses for readiness, metrics and shutdown. */
    gateway: {
      /** Connection of each partition, which knows the state of its Redis server. */
      servers: partitions.all.map(({ durable }) => durable),
      /** Latest pressure of each partition; undefined if unknown. */
      pressures: () => partitions.all.map(({ backpressure }) => backpressure.latest()),
      /** Bytes of the bodies in flight. */
      bodyBytes: bodies.bytes,
      /** Number of clients that wait for a result. */
      waiting: waits.count,
      /** Number of open call streams. */
      streaming: streams.count,
      /**
       * Connections for writing the results that runners deliver. They are used only if the gateway runs in its own
       * process, because it accepts deliveries at that process's private address.
       */
      resultWrites: partitions.map(({ partition: small, large, beginWrite }): ResultWrites => {
        return { small, large, beginWrite };
      }),
      /**
       * Begins the shutdown: the gateway reports that it is not ready, and ends all waits for results and all streams.
       * It still accepts requests.
       */
      drain(): void {
        admission.drain();
        endWaits();
      },
      /** Refuses all requests with `service.draining` from now on. */
      stop(): void {
        admission.stop();
        endWaits();
      },
    },
    /** Stops the timers, and closes the connections that the gateway itself has opened. Those of the host stay open. */
    close(): void {
      closeChanges();
      bodies.flush();
      for (const each of partitions.all) each.close();
    },
  };
}

/** Opens the parts with which clients read a result, wait for it, or watch the call. */
function openResults(
  partitions: Partitions,
  { postern, clock, log }: Required<Pick<IngressHost, "postern" | "clock" | "log">>,
) {
  const results = byCall(partitions.map(createResults));
  const changesOf = partitions.map((partition) => createChanges(partition));
  const changes = byCall(changesOf.map(({ watch }) => ({ watch })));
  const { secrets, waitMsMax, waitersMax, streams: limits } = toAskOptions(postern);
  return {
    results,
    waits: createAwaitResults({ results, changes, waitersMax, clock, log }),
    streams: createCallStreams({ results, changes, limits, clock, log }),
    /** Secrets of the result tokens. */
    tokenSecrets: secrets,
    waitMsMax,
    closeChanges(): void {
      for (const each of changesOf.all) each.close();
    },
  };
}
