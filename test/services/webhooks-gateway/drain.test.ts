import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { freePort } from "../../../shared/dev/free-port.ts";
import { startProcess } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { useWebhooks } from "../../fixtures/webhooks.ts";
import { canConnect, openRaw, send } from "../../support/http.ts";
import { tempDir } from "../../support/temp-dir.ts";

const webhooks = useWebhooks();
const ends = useEnds();

test("a gateway that drains is not ready, still takes what arrives, and ends each connection", async () => {
  const { gateway, address } = await webhooks.start({ endpoints: [{ path: "/a", job_id: 1, auth: "none" }] });
  gateway.drain();
  const ready = await send(address, { method: "GET", path: "/readyz" });
  expect([ready.status, ready.json()["draining"]]).toEqual([503, true]);
  const answer = await send(address, { path: "/a", body: "late" });
  expect([answer.status, answer.headers["connection"]]).toEqual([202, "close"]);
});

/** A gateway as a process of its own. */
async function startAlone({ drainSecs, endpoint = "" }: { drainSecs: number; endpoint?: string }) {
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
  await gateway.waitForEvent("redis.ready");
  return { gateway, port };
}

test("after SIGTERM a gateway answers who waits for a result at once, however long it drains", async () => {
  const endpoint = 'respond = "result"\nwait_secs = 30\n';
  const { gateway, port } = await startAlone({ drainSecs: 30, endpoint });
  const answers = Array.from({ length: 5 }, () => send(`127.0.0.1:${port}`, { path: "/a", body: "hi" }));
  await eventually("all wait", () => gateway.events("webhook.accepted").length === 5);
  let isOver = false;
  void gateway.kill("SIGTERM").then(() => {
    isOver = true;
  });
  for (const { status, headers } of await Promise.all(answers))
    expect([status, headers["connection"]]).toEqual([202, "close"]);
  expect(isOver).toBe(false);
});

test("after SIGTERM and drain_secs a gateway refuses what still arrives on an open connection, and exits 0", async () => {
  const { gateway, port } = await startAlone({ drainSecs: 0 });
  const begun = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\nPOST /a HTTP/1.1\r\nHost: x\r\n";
  const late = openRaw(`127.0.0.1:${port}`, begun);
  ends.defer(() => late.socket.destroy());
  await eventually("the first request is answered", () => late.received().endsWith("ok"));
  const ended = gateway.kill("SIGTERM");
  await eventually("it takes no connections", async () => !(await canConnect(port)));
  late.socket.write("Content-Length: 4\r\n\r\nlate");
  await eventually("it is answered", () => late.received().endsWith("}"));

  expect(late.received()).toMatch(/^HTTP\/1\.1 200[\s\S]*HTTP\/1\.1 503/);
  expect(late.received()).toContain('"code":"service.draining"');
  expect(late.received()).toMatch(/Retry-After: [1-9]/);
  expect(await ended).toMatchObject({ code: 0 });
});
