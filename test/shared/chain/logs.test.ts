import { expect, test } from "vitest";
import { ASSET, SELLER, useTokenChain } from "../../fixtures/token-chain.ts";
import { useChainReader } from "./chain-reader.ts";

const fixture = useTokenChain();
const { chainOf, nodeThat } = useChainReader(fixture);

test.each([10, 1])(
  "a provider that accepts at most %s blocks per request for logs gets no larger request",
  async (limit) => {
    let refused = 0;
    const { url } = await nodeThat(({ id, method, params: [range] }, res) => {
      if (method !== "eth_getLogs" || !range) return false;
      if (BigInt(range.toBlock) - BigInt(range.fromBlock) < BigInt(limit)) return false;
      refused += 1;
      res.end(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32600, message: "range too large" } }));
      return true;
    });
    const since = (await fixture.block()).number;
    const its = await fixture.authorization();
    const others = [
      await fixture.authorization({ value: 1n }),
      await fixture.authorization({ value: 2n }),
    ] as const;
    await fixture.pay(others[0]);
    await fixture.mine(30);
    const transaction = await fixture.pay(its);
    await fixture.pay(others[1]);
    const limited = chainOf({ rpcUrl: url });
    expect(await limited.evidenceOf(its, { since })).toMatchObject({ kind: "paid", transaction });

    const values = [];
    const range = {
      asset: ASSET,
      method: "eip3009",
      eventOrder: "used_first",
      payTo: SELLER,
      fromBlock: since + 1n,
      toBlock: (await fixture.block()).number,
    } as const;
    for await (const { value } of limited.transfersTo(range)) values.push(value);
    expect(values).toEqual([1n, 1000n, 2n]);
    const learning = refused;
    expect(await limited.evidenceOf(its, { since })).toMatchObject({ kind: "paid", transaction });
    expect(refused - learning).toBeLessThanOrEqual(1);
  },
);
