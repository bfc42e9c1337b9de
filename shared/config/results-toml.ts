import { z } from "zod";
import { between, rule } from "./between-keys.ts";
import { positive } from "./fields.ts";
import { type SecretSource, secretValues } from "./secrets.ts";

const MIB = 1024 * 1024;

/**
 * `[results]` of postern.toml: how results of runners are kept, and the limits on reading, awaiting and watching them
 * (shared/call/results).
 */
export const results = (from: SecretSource) =>
  z
    .strictObject({
      secs: z
        .int()
        .min(60)
        .max(365 * 86_400)
        .default(86_400),
      // A producer holds up to this many bytes of result for each call in flight, and writes them in one step.
      result_bytes_max: z
        .int()
        .min(0)
        .max(4 * MIB)
        .default(MIB / 4),
      bytes_max: positive.default(256 * MIB),
      deliveries: z.boolean().default(false),
      wait_secs_max: z.int().min(0).max(3600).default(30),
      waiters_max: z.int().min(0).max(1_000_000).default(10_000),
      streams_max: z.int().min(0).max(1_000_000).default(1000),
      streams_per_call_max: positive.default(16),
      secret: secretValues(from).optional(),
    })
    .check(
      between(
        rule(({ result_bytes_max, bytes_max }) => result_bytes_max <= bytes_max, {
          path: ["result_bytes_max"],
          message: "must be at most bytes_max, the limit for all results together",
        }),
      ),
    );

type WithResults = { results: z.output<ReturnType<typeof results>> };

/** Returns the limits on clients that read results, wait for them, or watch calls (shared/ingress/ingress.ts). */
export function toAskOptions(postern: WithResults & { http: { connections: number } }) {
  const { secret = [], wait_secs_max, waiters_max, streams_max, streams_per_call_max } = postern.results;
  const { connections } = postern.http;
  // Waiting requests and streams get at most three quarters of the connections. The rest is for other requests, such as
  // payments.
  return {
    secrets: secret,
    waitMsMax: wait_secs_max * 1000,
    waitersMax: Math.min(waiters_max, Math.floor(connections / 2)),
    streams: {
      streamsMax: Math.min(streams_max, Math.floor(connections / 4)),
      perCallMax: streams_per_call_max,
    },
  };
}

/** Returns the limits on the results in each of `partitions` partitions (shared/call/results/result.ts). */
export function toResultLimits({ results: table }: WithResults, partitions: number) {
  const { secs, result_bytes_max, bytes_max } = table;
  const bytesMax = Math.max(result_bytes_max, Math.floor(bytes_max / partitions));
  return { resultMs: secs * 1000, resultBytesMax: result_bytes_max, bytesMax };
}
