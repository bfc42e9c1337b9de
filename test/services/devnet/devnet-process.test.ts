import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findAnvil } from "../../../services/devnet/anvil.ts";
import type { Devnet } from "../../../shared/dev/devnet.ts";
import { type PosternProcess, startProcess } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { connectDevnet, type DevnetChain, startTestDevnet } from "../../support/devnet.ts";

const entry = ["--import", "tsx", fileURLToPath(new URL("run-devnet.ts", import.meta.url))];

let devnet: PosternProcess;
let places: Devnet;
let chain: DevnetChain;
beforeAll(async () => {
  devnet = startProcess({ name: "devnet", args: [], env: process.env, entry });
  places = (await devnet.waitForEvent("service.started")) as unknown as Devnet;
  chain = connectDevnet(places).chain;
});
afterAll(() => devnet?.kill());

const head = () => chain.client.getBlockNumber();

test("blocks come by themselves, not while mining is paused, and again after it", async () => {
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

test("the control port says what is where", async () => {
  const { chainId, token, payers } = places;
  const answer = (await (await fetch(places.controlUrl)).json()) as object;
  expect(answer).toMatchObject({ chainId, token, payers, facilitatorUrl: places.facilitatorUrl });
});

test("a port that is taken refuses the start and leaves no chain behind", async () => {
  const port = Number(new URL(places.facilitatorUrl).port);
  await expect(startTestDevnet({ ports: { facilitator: port } })).rejects.toMatchObject({
    code: "start.address_unavailable",
  });
  const rpc = Number(new URL(places.rpcUrl).port);
  await expect(startTestDevnet({ ports: { rpc } })).rejects.toMatchObject({
    code: "start.address_unavailable",
  });
});

test("without anvil it says how to install it", () => {
  const nowhere = { PATH: "/nowhere" };
  expect(() => findAnvil(nowhere, "")).toThrow(/foundryup/);
});

test("SIGTERM ends it cleanly, and anvil with it", async () => {
  expect(await devnet.kill("SIGTERM")).toEqual({ code: 0, signal: null });
  await expect(fetch(places.rpcUrl)).rejects.toThrow();
});
