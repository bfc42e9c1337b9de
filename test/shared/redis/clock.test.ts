import { expect, test } from "vitest";
import { createMetrics } from "../../../shared/platform/metrics/metrics.ts";
import { clockCheck, redisClock, registerClock } from "../../../shared/redis/clock.ts";
import type { Redis } from "../../../shared/redis/connect.ts";
import { useRedis } from "../../fixtures/redis.ts";

const redis = useRedis();

/** A connection to a server whose clock is `ms` milliseconds ahead of this machine's. */
function aheadBy(ms: number): Redis {
  const connection = redis.client.duplicate();
  const time = connection.time.bind(connection);
  const later = async (): Promise<number[]> => {
    const [secs, micros] = await time();
    return [Number(secs) + ms / 1000, Number(micros)];
  };
  return Object.assign(connection, { time: later });
}

test("the reported difference is that of the server whose clock differs most", async () => {
  const connections = [aheadBy(0), aheadBy(3_600_000), aheadBy(-60_000)];
  try {
    const metrics = createMetrics();
    registerClock(metrics, ...connections);
    await Promise.all(connections.map((each) => redisClock(each).read()));
    expect(clockCheck(...connections).clock_ahead_ms).toBeCloseTo(-3_600_000, -4);
    const [, seconds] = /^postern_clock_ahead_seconds (.*)$/m.exec(await metrics.text()) ?? [];
    expect(Number(seconds)).toBeCloseTo(-3600, -1);
  } finally {
    for (const each of connections) each.disconnect();
  }
});
