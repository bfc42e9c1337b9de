import { once } from "node:events";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { useOwnRedis } from "../../fixtures/redis.ts";
import { useRunners } from "../../fixtures/runners.ts";
import { gatedLong, gatedShort, hasLogged, stateOf } from "./gated-jobs.ts";

const redis = useOwnRedis();
const runners = useRunners({ redis, fresh: "test" });

/** Whether the address refuses connections. */
async function isRefused(address: string): Promise<boolean> {
  const [host, port] = address.split(":");
  const socket = connect(Number(port), host);
  const connected = await once(socket, "connect").then(
    () => true,
    () => false,
  );
  socket.destroy();
  return !connected;
}

test("a stopping runner lets running handlers end and answer, and begins nothing new", async () => {
  const { at, jobs } = gatedShort();
  const { offer, runner, address } = await runners.start({ jobs });
  const first = offer("k1");
  await eventually("the handler runs", () => at.runs === 1);
  const closed = runner.close(5000);
  await eventually("it takes no connection", () => isRefused(address));
  await expect(offer("k2")).rejects.toThrow(/ECONNREFUSED/);
  at.open();
  expect((await first).status).toBe(200);
  await closed;
});

test("a stopping runner waits until Redis accepts an answer, even if its client has gone", async () => {
  const { at, jobs } = gatedShort();
  const dying = await runners.start({ jobs });
  dying.offer("k").catch(() => {});
  await eventually("the handler runs", () => at.runs === 1);
  await redis.server.kill("SIGKILL");
  at.open();
  await eventually("the answer cannot be stored", () => hasLogged(dying, "job.store_delayed"));
  const closed = dying.runner.close(10_000);
  await redis.server.restart();
  await closed;
  const next = await runners.start({ jobs });
  expect((await next.offer("k")).headers["idempotent-replayed"]).toBe("true");
  expect(at.runs).toBe(1);
});

test("a stopping runner aborts its long calls and releases them, and the next runner resumes them at once", async () => {
  const { at, jobs } = gatedLong();
  const stopping = await runners.start({ jobs });
  await stopping.offer("k");
  await eventually("it runs", () => at.runs === 1);
  await stopping.runner.close(5000);
  expect(hasLogged(stopping, "job.interrupted")).toBe(true);
  at.open();
  const next = await runners.start({ jobs });
  await eventually("it is done", async () => (await stateOf(next, "k")) === "done");
  expect(at.runs).toBe(2);
});
