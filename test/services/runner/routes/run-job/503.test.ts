import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { listen } from "../../../../../shared/http/listen.ts";
import { useEnds } from "../../../../fixtures/ends.ts";
import { useOwnRedis } from "../../../../fixtures/redis.ts";
import { useRunners } from "../../../../fixtures/runners.ts";
import { send } from "../../../../support/http.ts";
import { counting } from "../../gated-jobs.ts";

const redis = useOwnRedis();
const runners = useRunners({ redis, fresh: "test" });
const ends = useEnds();

test("a call is refused with 503 and Retry-After while Redis is away, and nothing of it is begun", async () => {
  const { seen, jobs } = counting();
  const { offer } = await runners.start({ jobs });
  await redis.server.kill("SIGKILL");
  const refused = await eventually("Redis is missed", async () => {
    const answer = await offer("k");
    return answer.status === 503 ? answer : undefined;
  });
  expect(refused.json()["code"]).toBe("runner.store_unavailable");
  expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
  expect(seen.runs).toBe(0);
  await redis.server.restart();
  const taken = await eventually("Redis is back", async () => {
    const answer = await offer("k");
    return answer.status === 503 ? undefined : answer;
  });
  expect(taken.text).toBe("run 1");
});

test("a call whose begin has no reply is refused with 503, and runs when it is offered again", async () => {
  const { seen, jobs } = counting();
  const { offer } = await runners.start({ jobs });
  await offer("another"); // from now on Redis knows the scripts
  await redis.client.client("PAUSE", 60_000, "WRITE");
  const refused = await offer("k");
  await redis.client.client("UNPAUSE");
  expect([refused.status, refused.json()["code"]]).toEqual([503, "runner.store_unavailable"]);
  const after = await eventually("it runs", async () => {
    const answer = await offer("k");
    return answer.status === 503 ? undefined : answer;
  });
  expect([after.status, seen.runs]).toEqual([201, 2]);
});

test("a call that reaches a stopping runner is refused with 503 and does not run", async () => {
  const { seen, jobs } = counting();
  const { runner } = await runners.start({ jobs });
  const server = await listen(runner.handler, "127.0.0.1:0");
  ends.defer(() => server.close(0));
  await runner.close();
  const refused = await send(server.address, { path: "/jobs/1", headers: { "Idempotency-Key": "k" } });
  expect([refused.status, refused.headers["retry-after"], refused.json()["code"]]).toEqual([
    503,
    "1",
    "service.draining",
  ]);
  expect(seen.runs).toBe(0);
});
