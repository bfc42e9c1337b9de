import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { freePort } from "../../../shared/dev/free-port.ts";
import { startProcess } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { useOwnRedis } from "../../fixtures/redis.ts";
import { useWebhooks } from "../../fixtures/webhooks.ts";
import { canConnect, openRaw, send } from "../../support/http.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { tempDir } from "../../support/temp-dir.ts";

const redis = useOwnRedis();
const webhooks = useWebhooks({ redis });
const ends = useEnds();

test("a gateway that drains is not ready, also by its health path, and still accepts requests", async () => {
  const { gateway, address } = await webhooks.start({ endpoints: [{ path: "/a", job_id: 1, auth: "none" }] });
  gateway.drain();
  const ready = await send(address, { method: "GET", path: "/readyz" });
  expect([ready.status, ready.json()["draining"]]).toEqual([503, true]);
  const health = await send(address, { method: "GET", path: "/webhooks/health" });
  expect([health.status, health.text]).toEqual([503, "not ready"]);
  expect((await send(address, { path: "/a", body: "late" })).status).toBe(202);
});

type Alone = { drainSecs: number; endpoint?: string; awaited?: string };

/** Starts a gateway in its own process. */
async function startAlone({ drainSecs, endpoint = "", awaited = "service.started" }: Alone) {
  const dir = tempDir();
  const postern = `drain_secs = ${drainSecs}\n[redis]\nurl = "${webhooks.redis.url}"\n`;
  writeFileSync(join(dir, "postern.toml"), postern);
  const table = `[[endpoints]]\npath = "/a"\njob_id = 1\nauth = "none"\n${endpoint}`;
  writeFileSync(join(dir, "webhooks.toml"), table);
  const port = await freePort();
  const bind = ["--bind-address", `127.0.0.1:${port}`, "--ops-address", "127.0.0.1:0", "--service-id", "7"];
  const args = ["webhooks", "--config-dir", dir, ...bind];
  const gateway = startProcess({ name: "gateway", args, env: process.env });
  ends.defer(() => gateway.kill("SIGKILL"));
  await gateway.waitForEvent(awaited);
  return { gateway, port };
}

test("after SIGTERM and drain_secs a gateway accepts no connection, answers requests on open connections, closes these, and exits with 0", async () => {
  const { gateway, port } = await startAlone({ drainSecs: 0 });
  const begun = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\nPOST /a HTTP/1.1\r\nHost: x\r\n";
  const late = openRaw(`127.0.0.1:${port}`, begun);
  ends.defer(() => late.socket.destroy());
  await eventually("the first request is answered", () => late.received().endsWith("ok"));
  const ended = gateway.kill("SIGTERM");
  await eventually("it takes no connections", async () => !(await canConnect(port)));
  late.socket.write("Content-Length: 4\r\n\r\nlate");
  await eventually("it is answered", () => late.received().endsWith("}"));

  expect(late.received()).toMatch(/^HTTP\/1\.1 200[\s\S]*HTTP\/1\.1 202[\s\S]*^Connection: close\r$/m);
  expect(await ended).toMatchObject({ code: 0 });
});

onlyInLongRun(() => {
  test("after SIGTERM a gateway answers clients that wait for a result at once, even if it drains for a long time", async () => {
    const endpoint = 'respond = "result"\nwait_secs = 30\n';
    const { gateway, port } = await startAlone({ drainSecs: 30, endpoint });
    const answers = Array.from({ length: 5 }, () => send(`127.0.0.1:${port}`, { path: "/a", body: "hi" }));
    await eventually("all wait", () => gateway.events("webhook.accepted").length === 5);
    let isOver = false;
    void gateway.kill("SIGTERM").then(() => {
      isOver = true;
    });
    for (const { status } of await Promise.all(answers)) expect(status).toBe(202);
    expect(isOver).toBe(false);
  });

  test("a gateway that starts without Redis opens only its private port, opens the public one once it is ready, and exits on SIGTERM before that", async () => {
    await redis.server.kill("SIGKILL");
    const [early, waiting] = await Promise.all([
      startAlone({ drainSecs: 0, awaited: "service.starting" }),
      startAlone({ drainSecs: 0, awaited: "service.starting" }),
    ]);
    const [starting] = early.gateway.events("service.starting");
    const ready = await send(String(starting?.["opsAddress"]), { method: "GET", path: "/readyz" });
    expect([ready.status, await canConnect(early.port)]).toEqual([503, false]);
    expect(await waiting.gateway.kill("SIGTERM")).toMatchObject({ code: 0 });
    await redis.server.restart();
    await early.gateway.waitForEvent("service.started");
    expect((await send(`127.0.0.1:${early.port}`, { path: "/a", body: "first" })).status).toBe(202);
  });
});
