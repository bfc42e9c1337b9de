import { fileURLToPath } from "node:url";
import { beforeAll, expect, test } from "vitest";
import { findAnvil } from "../../../../services/dev/chain/anvil.ts";
import { loadConfig } from "../../../../shared/config/config-dir.ts";
import type { Devnet } from "../../../../shared/dev/devnet.ts";
import { freePort } from "../../../../shared/dev/free-port.ts";
import type { PosternProcess } from "../../../../shared/dev/process.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { readX402 } from "../../../../shared/pricing/read-x402.ts";
import { usePostern } from "../../../fixtures/postern.ts";
import { connectDevnet, type DevnetChain, startTestDevnet } from "../../../support/devnet.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";

const DEVNET_CONFIG = fileURLToPath(new URL("../../../../config/devnet", import.meta.url));

const postern = usePostern();
let devnet: PosternProcess;
let places: Devnet;
let chain: DevnetChain;
let ports: number[];
beforeAll(async () => {
  ports = [await freePort(), await freePort(), await freePort()];
  const [rpc, facilitator, control] = ports;
  const args = [
    ...["devnet", "--block-time-ms", "50", "--rpc-port", `${rpc}`],
    ...["--facilitator-port", `${facilitator}`, "--control-port", `${control}`],
  ];
  devnet = postern.start(args, { lastSignal: "SIGTERM" });
  const { controlUrl } = (await devnet.waitForEvent("service.started")) as unknown as Devnet;
  places = (await (await fetch(controlUrl)).json()) as Devnet;
  chain = connectDevnet(places).chain;
});

const head = () => chain.client.getBlockNumber();

test("a devnet makes blocks by itself, except while mining is paused", async () => {
  const before = await head();
  await eventually("five blocks more", async () => (await head()) >= before + 5n);
  await chain.pauseMining();
  const paused = await head();
  const mint = chain.mint(places.seller, 1n);
  await eventually("a transaction waits", async () => (await chain.client.getTxpoolStatus()).pending === 1);
  expect(await head()).toBe(paused);
  await chain.resumeMining();
  await mint;
  await eventually("five blocks more", async () => (await head()) >= paused + 5n);
});

test("a devnet uses the given ports, and its control port lists all addresses", async () => {
  const [rpc, facilitator, control] = ports;
  const { chainId, token, payers } = await devnet.waitForEvent("service.started");
  const keys = places.payers.map(({ privateKey }) => privateKey);
  expect([keys.length, keys.filter((key) => JSON.stringify(devnet.events()).includes(key))]).toEqual([7, []]);
  expect(await (await fetch(`http://127.0.0.1:${control}/`)).json()).toMatchObject({
    ...{ chainId, token, payers: (payers as string[]).map((address) => ({ address })) },
    rpcUrl: `http://127.0.0.1:${rpc}`,
    facilitatorUrl: `http://127.0.0.1:${facilitator}`,
  });
  expect((await fetch(`http://127.0.0.1:${facilitator}/supported`)).status).toBe(200);
});

test("config/devnet sells three jobs for the devnet's token, paid to its seller", () => {
  const { x402, prices } = loadConfig(readX402, { dir: DEVNET_CONFIG, env: {} });
  const { network, token: asset, seller: pay_to } = places;
  expect(x402?.accepted_tokens).toEqual([expect.objectContaining({ network, asset, pay_to, decimals: 6 })]);
  expect([...prices.keys()]).toEqual(["1/1", "1/2", "1/3"]);
});

test("a devnet whose port is in use does not start, and leaves no chain process behind", async () => {
  const port = Number(new URL(places.facilitatorUrl).port);
  await expect(startTestDevnet({ ports: { facilitator: port } })).rejects.toMatchObject({
    code: "start.address_unavailable",
  });
  const rpc = Number(new URL(places.rpcUrl).port);
  await expect(startTestDevnet({ ports: { rpc } })).rejects.toMatchObject({
    code: "start.address_unavailable",
  });
});

test("a devnet without anvil says how to install it", () => {
  const nowhere = { PATH: "/nowhere" };
  expect(() => findAnvil(nowhere, "")).toThrow(/foundryup/);
});

onlyInLongRun(() => {
  test("SIGKILL of a devnet leaves no anvil behind", async () => {
    const anywhere = ["--rpc-port", "--facilitator-port", "--control-port"].flatMap((port) => [port, "0"]);
    const doomed = postern.start(["devnet", ...anywhere]);
    const { rpcUrl } = (await doomed.waitForEvent("service.started")) as unknown as Devnet;
    const isUp = () =>
      fetch(rpcUrl).then(
        () => true,
        () => false,
      );
    expect(await isUp()).toBe(true);
    expect(await doomed.kill("SIGKILL")).toEqual({ code: null, signal: "SIGKILL" });
    await eventually("the chain is gone", async () => !(await isUp()), 10_000);
  });

  // This test comes last, because it ends the devnet of the tests before.
  test("SIGTERM ends a devnet with exit code 0, and its anvil with it", async () => {
    expect(await devnet.kill("SIGTERM")).toEqual({ code: 0, signal: null });
    await expect(fetch(places.rpcUrl)).rejects.toThrow();
  });
});
