import { describe, expect, test } from "vitest";
import { createRouter } from "../../../../services/runner/runner.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { listen } from "../../../../shared/http/listen.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { useOwnRedis } from "../../../fixtures/redis.ts";
import { useRunners } from "../../../fixtures/runners.ts";
import { send } from "../../../support/http.ts";

describe("200", () => {
  const runners = useRunners();

  test("a runner that accepts calls is ready, and reports the durability of its Redis", async () => {
    const { get } = await runners.start({ jobs: createRouter() });
    const answer = await get("/readyz");
    expect([answer.status, answer.json()]).toEqual([
      200,
      {
        ...{ status: "ready", redis: "always", durability: "strict", draining: false },
        clock_ahead_ms: expect.any(Number),
      },
    ]);
  });
});

describe("405", () => {
  const runners = useRunners();

  test("a POST is refused with 405 at the readiness probe, and the answer names GET and HEAD", async () => {
    const { address } = await runners.start({ jobs: createRouter() });
    const answer = await send(address, { path: "/readyz" });
    expect([answer.status, answer.headers["allow"]]).toEqual([405, "GET, HEAD"]);
  });
});

describe("503", () => {
  const redis = useOwnRedis();
  const runners = useRunners({ redis });
  const ends = useEnds();

  test("a runner is not ready while Redis is away, says why, and is ready again when Redis is back", async () => {
    const { get } = await runners.start({ jobs: createRouter() });
    await redis.server.kill("SIGKILL");
    const answer = await eventually("it is not ready", async () => {
      const asked = await get("/readyz");
      return asked.status === 503 ? asked : undefined;
    });
    expect(answer.json()).toMatchObject({
      status: "not ready",
      redis: expect.stringMatching(/^queue\.unavailable: /),
      draining: false,
    });
    await redis.server.restart();
    await eventually("it is ready again", async () => (await get("/readyz")).status === 200);
  });

  test("a stopping runner is not ready, and says that it drains", async () => {
    const { runner } = await runners.start({ jobs: createRouter() });
    const server = await listen(runner.handler, "127.0.0.1:0");
    ends.defer(() => server.close(0));
    await runner.close();
    const answer = await send(server.address, { method: "GET", path: "/readyz" });
    expect([answer.status, answer.json()]).toEqual([
      503,
      {
        ...{ status: "not ready", redis: "always", durability: "strict", draining: true },
        clock_ahead_ms: expect.any(Number),
      },
    ]);
  });
});
