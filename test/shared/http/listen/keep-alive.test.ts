import { once } from "node:events";
import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { listen } from "../../../../shared/http/listen.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { usePostern } from "../../../fixtures/postern.ts";
import { asUser, useRedis } from "../../../fixtures/redis.ts";
import { openRaw, sendRaw } from "../../../support/http.ts";

const ends = useEnds();
const redis = useRedis();
const postern = usePostern(() => ({
  postern: { drain_secs: 0, redis: { url: asUser(redis.url, "webhooks") }, http: { keep_alive_secs: 1 } },
  webhooks: { endpoints: [{ path: "/a", job_id: 1, auth: "none" }] },
}));

const REQUEST = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

test("an idle connection outlives the time that a request has to arrive, serves another, and is closed keepAliveMs after it", async () => {
  const keepAliveMs = 1200;
  const options = { requestTimeoutMs: 200, keepAliveMs };
  const server = await listen((_req, res) => res.end("here"), "127.0.0.1:0", options);
  ends.defer(() => server.close(0));
  const idle = openRaw(server.address, REQUEST);
  const answers = () => idle.received().match(/HTTP\/1\.1 200 /g)?.length ?? 0;
  await eventually("the first is answered", () => answers() === 1);
  // Another connection shows when the time for a request is over.
  expect(await sendRaw(server.address, "GET / HTTP/1.1\r\nHo", { enough: (soFar) => soFar !== "" })).toMatch(
    /^HTTP\/1\.1 408 /,
  );
  idle.socket.write(REQUEST);
  await eventually("the second is answered", () => answers() === 2);
  const answeredAt = performance.now();
  await once(idle.socket, "end");
  const idleMs = performance.now() - answeredAt;
  expect(idleMs).toBeGreaterThan(keepAliveMs - 200);
  expect(idleMs).toBeLessThan(keepAliveMs + 3000);
});

test("a gateway tells its clients for how long it keeps an idle connection, and closes it after http.keep_alive_secs", async () => {
  const gateway = postern.start([
    ...["webhooks", "--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"],
  ]);
  const { address } = await gateway.waitForEvent("service.started");
  const idle = openRaw(String(address), "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
  await once(idle.socket, "end");
  expect(idle.received()).toMatch(/^HTTP\/1\.1 200 .*^Keep-Alive: timeout=1\r$/ms);
});
