import { once } from "node:events";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { PLACES } from "../../../services/dev/ports.ts";
import { createDevPayments, newDevSecrets } from "../../../shared/dev/config.ts";
import { freePort } from "../../../shared/dev/free-port.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { buy, freeBase, partPids, readyOf, startDev } from "./use-dev.ts";

const DEVNET_CONFIG = fileURLToPath(new URL("../../../config/devnet", import.meta.url));
const PATIENCE_MS = 300_000;
const postern = usePostern();
const ends = useEnds();

onlyInLongRun(() => {
  test("--port-base gives every listener its port in the documented order, also those in x402.toml, and a payment succeeds", {
    timeout: PATIENCE_MS,
  }, async () => {
    const base = await freeBase();
    const at = (offset: number) => `127.0.0.1:${base + offset}`;
    const args = ["--config-dir", DEVNET_CONFIG, "--port-base", String(base)];
    const ready = await readyOf(startDev(postern, args));
    expect(ready).toMatchObject({
      webhooks: `http://${at(0)}`,
      x402: `http://${at(1)}`,
      runner: `http://${at(2)}`,
      probes: {
        webhooks: `http://${at(3)}/readyz`,
        producer: `http://${at(4)}/readyz`,
        x402: `http://${at(5)}/readyz`,
        operator: `http://${at(14)}/readyz`,
      },
      devnet: { rpc: `http://${at(9)}`, facilitator: `http://${at(10)}`, control: `http://${at(11)}` },
      redis: `redis://${at(12)}`,
      operator: `http://${at(13)}`,
    });
    const [job] = ready.jobs;
    expect(job?.url).toBe(`http://${at(1)}/x402/jobs/1/1`);
    expect(await buy(job ?? { url: "", price: "" })).toBe("injected");
  });

  test("--port-base without a configuration moves the pricing engine too", async () => {
    const base = await freeBase();
    const { pricing, probes } = await readyOf(startDev(postern, ["--port-base", String(base)]));
    expect(pricing).toEqual({ http: `http://127.0.0.1:${base + 7}`, grpc: `127.0.0.1:${base + 8}` });
    expect(probes["pricing"]).toBe(`http://127.0.0.1:${base + 6}/readyz`);
  });

  test("if a port of --port-base is in use, dev ends and says which one and what it is for", async () => {
    const base = await freeBase();
    const taker = createServer().listen(base + 9, "127.0.0.1");
    ends.defer(() => taker.close());
    await once(taker, "listening");
    const dev = startDev(postern, ["--port-base", String(base)]);
    expect((await dev.exit).code).toBe(1);
    expect(dev.events("service.failed")[0]).toMatchObject({
      code: "start.address_unavailable",
      reason: expect.stringContaining(
        `127.0.0.1:${base + 9} is in use, but --port-base ${base} needs it for the chain.`,
      ),
    });
  });

  test("if the address of a part is in use, dev ends and says what to do", async () => {
    const port = await freePort();
    const taker = createServer().listen(port, "127.0.0.1");
    ends.defer(() => taker.close());
    await once(taker, "listening");
    const dir = tempDir();
    postern.configure({
      webhooks: {
        bind_address: `127.0.0.1:${port}`,
        endpoints: [{ path: "/own", job_id: 1, auth: "none" }],
      },
    });
    cpSync(join(postern.configDir, "webhooks.toml"), join(dir, "webhooks.toml"));
    const dev = startDev(postern, ["--config-dir", dir, "--runner", "http://127.0.0.1:1"]);
    expect((await dev.exit).code).toBe(1);
    expect(dev.events("service.failed").at(-1)).toMatchObject({
      code: "start.part_ended",
      reason: expect.stringMatching(
        new RegExp(`^webhooks ended while starting: cannot listen on 127.0.0.1:${port}: .*give --port-base$`),
      ),
    });
  });
});

/** Writes config/devnet with other ports for the gateway and the devnet. */
async function devnetConfig(
  ports: Record<"rpc" | "facilitator" | "x402" | "runner", number>,
): Promise<string> {
  const dir = join(tempDir(), "mine");
  cpSync(DEVNET_CONFIG, dir, { recursive: true });
  const devnet = {
    network: "eip155:84532",
    token: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
    seller: "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
    rpcUrl: `http://127.0.0.1:${ports.rpc}`,
    facilitatorUrl: `http://localhost:${ports.facilitator}`,
  } as const;
  const address = `127.0.0.1:${ports.x402}`;
  const { x402 } = createDevPayments(devnet, { address, serviceId: "1", secrets: newDevSecrets() });
  postern.configure({
    x402,
    webhooks: {
      bind_address: `127.0.0.1:${await freePort()}`,
      endpoints: [{ path: "/own", job_id: 1, auth: "none" }],
    },
    postern: { runner: { bind_address: `127.0.0.1:${ports.runner}` } },
  });
  for (const file of ["x402.toml", "webhooks.toml", "postern.toml"])
    cpSync(join(postern.configDir, file), join(dir, file));
  return dir;
}

onlyInLongRun(() => {
  test("dev starts the devnet at exactly the ports that an operator's x402.toml names, and a second dev uses the same one", {
    timeout: PATIENCE_MS,
  }, async () => {
    const base = await freeBase(3);
    const named = { rpc: base, facilitator: base + 1 };
    const [x402, runner] = [await freePort(), await freePort()];
    const first = startDev(postern, ["--config-dir", await devnetConfig({ ...named, x402, runner })]);
    const ready = await readyOf(first);
    expect(ready.devnet).toMatchObject({
      rpc: `http://127.0.0.1:${named.rpc}`,
      facilitator: `http://127.0.0.1:${named.facilitator}`,
    });

    const other = { ...named, x402: await freePort(), runner: await freePort() };
    const second = startDev(postern, ["--config-dir", await devnetConfig(other)]);
    const { jobs } = await readyOf(second);
    expect(Object.keys(partPids(second))).not.toContain("devnet");
    expect(second.events("dev.devnet_found")[0]).toMatchObject({ rpc: ready.devnet?.rpc });
    expect(await buy(jobs[0] as (typeof jobs)[number])).toBe("injected");
  });

  test("a relative --config-dir begins at the folder in which dev is started", async () => {
    const cwd = tempDir();
    cpSync(DEVNET_CONFIG, join(cwd, "mine"), { recursive: true });
    writeFileSync(join(cwd, "mine/webhooks.toml"), "no TOML");
    const dev = startDev(postern, ["--config-dir", "mine"], { cwd });
    expect((await dev.exit).code).toBe(3);
    expect(dev.events("service.failed")[0]?.["reason"]).toContain("mine/webhooks.toml");
  });
});

test("docs/dev.md lists the same ports as dev uses, from the base on and by default", () => {
  const page = readFileSync(new URL("../../../docs/dev.md", import.meta.url), "utf8");
  const rows = page.matchAll(/^\| base(?:\+(\d+))? \| (.*) \| (.*) \|$/gm);
  const listed = [...rows].map(([, offset = "0", what, usual]) => [Number(offset), what, usual]);
  expect(listed).toEqual(
    Object.values(PLACES).map(({ what, usual }, i) => [i, what, usual === 0 ? "any" : String(usual)]),
  );
});
