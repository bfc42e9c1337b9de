import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { useTokenChain } from "../../fixtures/token-chain.ts";
import { recordingLog } from "../../support/recording-log.ts";
import { useChainReader } from "./chain-reader.ts";

const fixture = useTokenChain();
const { chainOf, nodeThat } = useChainReader(fixture);

test("a transaction that does not pay an authorization proves no payment for it", async () => {
  const [one, two] = [await fixture.authorization(), await fixture.authorization()];
  const chain = chainOf({});
  const transaction = await fixture.pay(one);
  const { number: block } = await fixture.block();
  expect(await chain.proofOf(transaction, one)).toEqual({ kind: "paid", position: 1, block });
  expect(await chain.proofOf(transaction, two)).toEqual({ kind: "none", block });
  expect(await chain.proofOf(`0x${"12".repeat(32)}`, one)).toBeUndefined();
});

test("a node of another chain is never asked for evidence, because every payment would look unpaid there", async () => {
  const other = chainOf({ chainId: 8453 });
  const its = await fixture.authorization();
  await expect(other.evidenceOf(its, { since: 0n })).rejects.toThrow("the node serves chain 84532, not 8453");
});

test("the head follows the chain, says when it was read, and recovers by itself from a node that was away", async () => {
  const steady = chainOf({});
  steady.start();
  let away = true;
  const { url, asked } = await nodeThat((_, res) => away && Boolean(res.writeHead(503).end()));
  const log = recordingLog();
  const its = chainOf({ rpcUrl: url }, log);
  its.start();

  await eventually("the head is read", () => steady.head());
  await fixture.mine(1);
  const { number, timestamp } = await fixture.block();
  await eventually("the head has moved", () => steady.head()?.number === number);
  await eventually("the node is missed, twice", () => log.events.length > 0 && asked.length > 1);
  expect(its.head()).toBeUndefined();

  away = false;
  await eventually("the node is back", () => its.head());
  expect(its.head()).toMatchObject({ number, timestamp });
  expect(its.head()?.at).toBeGreaterThan(Date.now() + 3_155_000_000_000);
  await fixture.mine(1);
  expect((await its.freshHead()).number).toBe(number + 1n);
  await eventually("its return is logged", () => log.events.length > 1);
  expect(log.events.map(({ event }) => event)).toEqual(["chain.down", "chain.up"]);
});
