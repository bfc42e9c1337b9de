import type { ServerResponse } from "node:http";
import { encodeAbiParameters, type Hex, parseAbiParameters, toFunctionSelector } from "viem";
import { expect, test } from "vitest";
import { ASSET, useTokenChain } from "../../fixtures/token-chain.ts";
import { answerWith, type Rpc } from "../../support/node-before.ts";
import { useChainReader } from "./chain-reader.ts";

const fixture = useTokenChain();
const { chainOf, nodeThat } = useChainReader(fixture);
const token = {
  transfer_method: "eip3009",
  asset: ASSET,
  decimals: 6,
  eip3009_name: "USDC",
  eip3009_version: "2",
} as const;

const NO_FUNCTION = { code: 3, message: "execution reverted" };

/** A node whose contracts give these answers to these functions. Null models a contract without the function. */
async function withAnswers(answers: Record<string, Hex | null>) {
  const bySelector = new Map(
    Object.entries(answers).map(([name, answer]) => [toFunctionSelector(name), answer]),
  );
  const { url } = await nodeThat((rpc: Rpc, res: ServerResponse) => {
    if (rpc.method !== "eth_call") return false;
    const [{ data }] = rpc.params as unknown as [{ data: string }];
    const answer = bySelector.get(data.slice(0, 10) as Hex);
    if (answer === undefined) return false;
    if (answer !== null) return answerWith(answer, rpc, res);
    res.end(JSON.stringify({ jsonrpc: "2.0", id: rpc.id, error: NO_FUNCTION }));
    return true;
  });
  return chainOf({ rpcUrl: url });
}

const DOMAIN = parseAbiParameters("bytes1, string, string, uint256, address, bytes32, uint256[]");
const domainOf = (version: string) =>
  encodeAbiParameters(DOMAIN, [
    ...(["0x0f", "USDC", version, BigInt(fixture.chainId), ASSET] as const),
    `0x${"0".repeat(64)}`,
    [],
  ]);
const byParts = (version: string) => ({
  "DOMAIN_SEPARATOR()": null,
  "eip712Domain()": domainOf(version),
});

test("a token passes its check if its contract publishes the hash of its domain or the parts of it", async () => {
  const nothing = { problems: [], warnings: [] };
  expect(await chainOf({}).check(token)).toEqual(nothing);
  expect(await (await withAnswers(byParts("2"))).check(token)).toEqual(nothing);
  const { problems } = await (await withAnswers(byParts("1"))).check(token);
  expect(problems).toEqual([expect.stringContaining('eip3009_version = "2"')]);
});

test.each<[Record<string, Hex | null>, RegExp]>([
  [{ "decimals()": null }, /implement decimals/],
  [{ "decimals()": "0x" }, /implement decimals/],
  [{ "DOMAIN_SEPARATOR()": null, "eip712Domain()": null }, /neither DOMAIN_SEPARATOR/],
  [{ "authorizationState(address,bytes32)": null }, /EIP-3009/],
])("a contract that answers %o is no token to be sold for", async (answers, problem) => {
  const { problems } = await (await withAnswers(answers)).check(token);
  expect(problems).toEqual([expect.stringMatching(problem)]);
});

test("a token's check has no result while the node cannot answer", async () => {
  const { url } = await nodeThat((rpc, res) => {
    if (rpc.method !== "eth_call") return false;
    res.writeHead(500).end("out of order");
    return true;
  });
  await expect(chainOf({ rpcUrl: url }).check(token)).rejects.toMatchObject({ code: "payment.unavailable" });
});

test("a contract that exists only a moment later, as on a chain that has just started, is no problem", async () => {
  let isThere = false;
  const { url } = await nodeThat((rpc, res) => {
    if (rpc.method !== "eth_getCode" || isThere) return false;
    isThere = true;
    return answerWith("0x", rpc, res);
  });
  expect(await chainOf({ rpcUrl: url }).check(token)).toEqual({ problems: [], warnings: [] });
});
