import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { ownRunnerUrl } from "../../../services/dev/own-runner.ts";
import { freePort } from "../../../shared/dev/free-port.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { send } from "../../support/http.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { withoutAnvil } from "../../support/without-anvil.ts";
import { runHere } from "../cli/run-here.ts";
import { apart, freeBase, partPids, type Ready, readyOf, startDev } from "./use-dev.ts";

const postern = usePostern();

let address: string;
let url: string;
beforeEach(async () => {
  address = `127.0.0.1:${await freePort()}`;
  url = `http://${address}`;
});

/** Starts a runner outside of dev. It accepts only requests that are signed with this secret. */
async function startRunner(redis: string, secret: string): Promise<void> {
  postern.configure({ postern: { redis: { url: redis }, runner: { bind_address: address, secret } } });
  await postern.start(["runner", "--ops-address", "127.0.0.1:0"]).waitForEvent("service.started");
}

async function sendTo({ webhooks }: Ready, path: string): Promise<unknown> {
  const answer = await send(new URL(webhooks).host, { path, body: "hello" });
  expect(answer.status).toBe(202);
  return answer.json()["call_id"];
}

onlyInLongRun(() => {
  test("dev with --runner starts no runner, says that yours does not answer yet, keeps its calls, and signs them with the printed secret", async () => {
    const { dist, env } = withoutAnvil();
    const entry = [join(dist, "services/cli/main.js")];
    const base = await freeBase();
    const dev = startDev(postern, ["--runner", url, "--port-base", String(base)], { entry, env });
    const ready = await readyOf(dev);
    const deliverTo = `http://127.0.0.1:${base + 3}`; // docs/runner.md names this port for a base of 9400
    expect([ready.runner, ready.ownRunner]).toEqual([
      url,
      expect.objectContaining({ answers: false, deliverTo }),
    ]);
    expect(dev.events("dev.runner_down")[0]).toMatchObject({ url });
    expect(Object.keys(partPids(dev)).toSorted()).toEqual(["operator", "producer", "webhooks"]);
    const callId = await sendTo(ready, "/hooks/open");
    await startRunner(ready.redis, ready.ownRunner?.secret ?? "");
    await dev.waitForEvent("call.injected", { where: (event) => event["callId"] === callId });
  });

  test("dev with --runner sells jobs only by their numbers, because it does not know what your runner does", async () => {
    const ready = await readyOf(startDev(postern, ["--runner", url, ...(await apart())]));
    const sold = ready.jobs.map(({ name, schema, pay }) => [name, schema, typeof pay]);
    expect(sold).toEqual([1, 2, 3].map(() => [undefined, undefined, "string"]));
  });

  describe("dev with a [runner] url of --config-dir", () => {
    const secret = "an operator's own secret of the runner";
    const own = async (runner: Record<string, string>) => ({
      postern: { runner: { secret, ...runner } },
      webhooks: {
        bind_address: `127.0.0.1:${await freePort()}`,
        endpoints: [{ path: "/own", job_id: 1, auth: "none" }],
      },
    });

    test("uses the runner that listens there, and does not print its secret", async () => {
      postern.configure(await own({ url }));
      const dev = startDev(postern, ["--config-dir", postern.configDir, ...(await apart())]);
      const ready = await readyOf(dev);
      expect(ready.ownRunner).toEqual({ answers: false, deliverTo: expect.any(String) });
      expect(Object.keys(partPids(dev))).not.toContain("runner");
      await startRunner(ready.redis, secret);
      const callId = await sendTo(ready, "/own");
      await dev.waitForEvent("call.injected", { where: (event) => event["callId"] === callId });
      expect(dev.tail()).not.toContain(secret);
    });

    test("is overridden by --runner", async () => {
      postern.configure(await own({ url: "http://127.0.0.1:1" }));
      const ready = await readyOf(
        startDev(postern, ["--config-dir", postern.configDir, ...(await apart()), "--runner", `${url}/`]),
      );
      expect([ready.runner, ready.ownRunner]).toEqual([
        url,
        { answers: false, deliverTo: expect.any(String) },
      ]);
    });

    test("starts the reference runner if only its bind_address is given, and sends it the calls", async () => {
      postern.configure(await own({ bind_address: address }));
      const dev = startDev(postern, ["--config-dir", postern.configDir]);
      const ready = await readyOf(dev);
      expect([ready.runner, ready.ownRunner]).toEqual([url, undefined]);
      const callId = await sendTo(ready, "/own");
      await dev.waitForEvent("call.injected", { where: (event) => event["callId"] === callId });
    });
  });
});

test.each([
  [{}, undefined],
  [{ url: "http://127.0.0.1:8645" }, undefined],
  [{ url: "http://localhost:8645/" }, undefined],
  [{ url: "http://localhost:9000", bind_address: "0.0.0.0:9000" }, undefined],
  [{ url: "http://10.0.0.7:9000", bind_address: "10.0.0.7:9000" }, undefined],
  [{ url: "http://10.0.0.7:9000", bind_address: "127.0.0.1:9000" }, "http://10.0.0.7:9000"],
  [{ url: "http://127.0.0.1:9000" }, "http://127.0.0.1:9000"],
  [{ url: "http://127.0.0.1:8645/mine" }, "http://127.0.0.1:8645/mine"],
  [{ url: "https://127.0.0.1:8645" }, "https://127.0.0.1:8645"],
] as const)(
  "dev treats the runner of %o as your own if it is not at the reference runner's address",
  (runner, expected) => {
    expect(ownRunnerUrl(undefined, runner)).toBe(expected);
  },
);

test.each(["9000", "localhost:9000", "redis://127.0.0.1"])(
  "--runner %s is refused with an explanation",
  async (text) => {
    const { code, stderr } = await runHere(["dev", "--runner", text]);
    expect([code, stderr]).toEqual([2, expect.stringContaining("it must be an http or https URL")]);
  },
);
