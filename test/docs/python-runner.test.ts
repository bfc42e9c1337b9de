import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { sha256Hex } from "../../shared/crypto/compare.ts";
import { contentDigest, signMessage } from "../../shared/crypto/message-signature.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { spawnChild } from "../../shared/dev/child.ts";
import { findProgram } from "../../shared/dev/find-program.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { randomCallId } from "../../shared/job-call/call-id.ts";
import { useDeliveries } from "../fixtures/deliveries.ts";
import { useEnds } from "../fixtures/ends.ts";
import { usePostern } from "../fixtures/postern.ts";
import { apart, readyOf, startDev } from "../services/dev/use-dev.ts";
import { send } from "../support/http.ts";
import { tempDir } from "../support/temp-dir.ts";
import { blocksOf } from "./blocks.ts";

const python = findProgram(["python3"], process.env);
const postern = usePostern();
const deliveries = useDeliveries();
const ends = useEnds();

let host: string;
let lines: string[];
beforeEach(async () => {
  host = `127.0.0.1:${await freePort()}`;
  lines = [];
});

/** Runs the runner of docs/runner.md as it stands, but for its port. */
async function startRunner(secret: string, deliverTo?: string): Promise<void> {
  const block = blocksOf("docs/runner.md").find(({ language }) => language === "python");
  const file = join(tempDir(), "runner.py");
  writeFileSync(file, String(block?.text).replace("7000", host.split(":")[1] ?? ""));
  const env = { ...process.env, POSTERN_RUNNER_SECRET: secret, POSTERN_DELIVER_TO: deliverTo };
  const runner = spawnChild({ command: python ?? "", args: [file], env, onLine: (line) => lines.push(line) });
  ends.defer(() => runner.kill("SIGKILL"));
  await eventually("the runner listens", async () => (await send(host, { path: "/" })).status > 0);
}

test.skipIf(python === undefined)(
  "the runner in Python of docs/runner.md runs what dev sends it, a webhook and a payment",
  async () => {
    const dev = startDev(postern, ["--runner", `http://${host}`, ...(await apart())]);
    const ready = await readyOf(dev);
    await startRunner(ready.ownRunner?.secret ?? "");
    const { status } = await send(new URL(ready.webhooks).host, { path: "/hooks/open", body: "by webhook" });
    expect(status).toBe(202);
    const [job] = ready.jobs;
    const [, payer = ""] = /POSTERN_PAYER_KEY=(0x\w+)/.exec(job?.pay ?? "") ?? [];
    const pay = ["pay", job?.url ?? "", "--body", "by payment"];
    expect((await postern.run(pay, { env: { POSTERN_PAYER_KEY: payer } })).code).toBe(0);
    const ran = () => lines.filter((line) => line.startsWith("/jobs/1 "));
    await eventually("both calls have run", () => ran().length === 2);
    expect(lines.join("\n")).toMatch(/\/jobs\/1 c_\w+ by webhook/);
    expect(lines.join("\n")).toMatch(/\/jobs\/1 c_\w+ by payment/);
  },
);

test.skipIf(python === undefined)(
  "the runner in Python of docs/runner.md delivers the result of its long job",
  async () => {
    const secret = "s".repeat(32);
    const gateway = await deliveries.start({ runner: { secret }, results: { deliveries: true } });
    await startRunner(secret, `http://${gateway.address}`);
    const id = randomCallId();
    const covered = {
      "content-digest": contentDigest(sha256Hex(Buffer.from("hello"))),
      "idempotency-key": id,
    };
    const signed = { method: "POST", path: "/jobs/3", headers: covered };
    const signature = signMessage(new Secret(secret), signed, Math.floor(Date.now() / 1000));
    const answer = await send(host, {
      path: "/jobs/3",
      body: "hello",
      headers: { ...covered, ...signature },
    });
    expect(answer.status).toBe(202);
    const read = await eventually("its result is there", async () => {
      const found = await gateway.results.read(id);
      return found.kind === "answer" ? found : undefined;
    });
    expect(read).toMatchObject({ status: 200, contentType: "text/plain", body: Buffer.from("long: hello") });
  },
);

test.skipIf(python === undefined)(
  "the runner in Python of docs/runner.md takes what a producer signs once, and nothing that was changed on the way",
  async () => {
    await startRunner("s");
    const now = Math.floor(Date.now() / 1000);
    const covered = {
      "content-digest": contentDigest(sha256Hex(Buffer.from("hello"))),
      "content-type": "text/plain",
      "idempotency-key": "c_1",
      "x-platform-call-id": "c_1",
    };
    type Change = { body?: string; path?: string; secret?: string; created?: number; more?: object };
    const post = async ({
      body = "hello",
      path = "/jobs/1",
      secret = "s",
      created = now,
      more,
    }: Change = {}) => {
      const signed = { method: "POST", path: "/jobs/1", headers: covered };
      const signature = signMessage(new Secret(secret), signed, created);
      const headers = Object.entries({ ...covered, ...signature, ...more }).flat();
      return (await send(host, { path, body, headers })).status;
    };
    expect([await post(), await post()]).toEqual([200, 200]);
    expect(lines.filter((line) => line.startsWith("/jobs/1 "))).toEqual(["/jobs/1 c_1 hello"]);
    for (const changed of [
      { body: "hullo" },
      { path: "/jobs/2" },
      { secret: "t" },
      { created: now - 310 },
      { created: now + 70 },
      { more: { "x-webhook-name": "other" } },
      { more: { "content-type": "text/html" } },
      { more: { Signature: "postern=:AAAA:" } },
      { more: { "Signature-Input": "none" } },
    ])
      expect([changed, await post(changed)]).toEqual([changed, 401]);
  },
);
