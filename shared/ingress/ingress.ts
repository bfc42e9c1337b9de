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

/** A gateway of either kind, as its process holds it. */
export type Gateway = ComposedServer & ReturnType<typeof openIngress>["gateway"];

type IngressHost = Pick<CallsHost, "postern" | "partitions" | "log" | "clock" | "deployments">;

/**
 * What both gateways are composed of: whether calls can be taken now, how one is added, and what its request may cost before. `readSettings`
 * is part of each check of the partition of this index, once a second.
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
    /** The partitions as calls are written to them. */
    partitions,
    clientAddressOf,
    bodies,
    admission,
    /** For what is written to Redis, compared with what it holds, or agreed on with other processes. */
    redisTime: host.clock ?? redisClock(host.partitions.control.redis).now,
    firstCheck: firstCheckOf(partitions.all.map(({ durable }) => durable)),
    /** What gateways of both kinds have for their process. */
    gateway: {
      /** The server of each partition. */
      servers: partitions.all.map(({ durable }) => durable),
      /** The queues of each partition as last seen; undefined if they are unknown. */
      pressures: () => partitions.all.map(({ backpressure }) => backpressure.seen()),
      /** Bytes of the bodies in flight. */
      bodyBytes: bodies.bytes,
      /** Number of clients that wait for a result. */
      waiting: waits.count,
      /** Number of open call streams. */
      streaming: streams.count,
      /** Writes of what runners deliver, which only the gateway's process takes. */
      resultWrites: partitions.map(({ partition: small, large, beginWrite }): ResultWrites => {
        return { small, large, beginWrite };
      }),
      /** The gateway is not ready from now on. Waits for results and streams end, and requests are still taken. */
      drain(): void {
        admission.drain();
        endWaits();
      },
      /** Requests are refused from now on, with `service.draining`. */
      stop(): void {
        admission.stop();
        endWaits();
      },
    },
    /** Ends the timers, and the connections beside the host's. */
    close(): void {
      closeChanges();
      bodies.flush();
      for (const each of partitions.all) each.close();
    },
  };
}

/** How clients ask for a result: at once, while they wait, or as they watch the call. */
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
