import { expect, test } from "vitest";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { usePostern } from "../../../fixtures/postern.ts";
import { asUser } from "../../../fixtures/redis.ts";
import { failPaid, OTHER_USDC, USDC, WIDE } from "../../console/paid-failures.ts";
import { runHere, runHereWith } from "../run-here.ts";

const fixture = useFailedCalls();
const postern = usePostern(() => ({ postern: { redis: { url: asUser(fixture.redis.url, "operator") } } }));
const here = runHereWith(postern);

test("postern failed discard ends a call only with a reason and a confirmation", async () => {
  const [id = ""] = await fixture.fail([{}]);
  expect(await here(["failed", "discard", id, "--reason", "x"])).toMatchObject({ code: 2 });
  expect(await here(["failed", "discard", id, "--reason", "x", "--dry-run"])).toMatchObject({ code: 0 });
  expect(await fixture.calls.count({})).toBe(1);
  expect(await here(["failed", "discard", id, "--reason", "x", "--yes"])).toMatchObject({ code: 0 });
  expect(await fixture.records.state(id)).toBe("DISCARDED");
});

test("postern failed discard prints the paid sum before it asks, and the due refunds afterwards", async () => {
  await fixture.fail([{}]);
  await failPaid(fixture, [
    { ...USDC, amount: "3200000" },
    { ...USDC, amount: "1" },
    { ...OTHER_USDC, amount: "7" },
    { ...WIDE, amount: "5", isProven: false },
  ]);
  const amounts = [
    `3200001 smallest units of USDC (${USDC.asset} on ${USDC.network})`,
    `7 smallest units of USDC (${OTHER_USDC.asset} on ${OTHER_USDC.network})`,
  ];
  const command = ["failed", "discard", "--all", "--reason", "x"];
  const counted = await here([...command, "--dry-run"]);
  expect(counted).toMatchObject({ code: 0 });
  const sums = /^3 of them are paid, (.*) and (.*): refunds become due$/m.exec(counted.stdout);
  expect(sums?.slice(1).toSorted()).toEqual(amounts.toSorted());
  expect(counted.stdout).toMatch(
    /^1 of them is paid, 5 smallest units of WIDE: not yet confirmed on chain$/m,
  );
  const asked: string[] = [];
  const terminal = {
    canAsk: true,
    ask: async (question: string) => (asked.push(question) > 1 ? "y" : "n"),
  };
  const ask = () => runHere([...command, "--config-dir", postern.configDir], {}, terminal);
  expect(await ask()).toMatchObject({ code: 1 });
  expect(await fixture.calls.count({})).toBe(5);
  expect(asked[0]).toMatch(
    /^This discards 5 failed calls and deletes their bodies, and cannot be undone\.\n3 of them are paid, .*: refunds become due\n1 of them is paid, .*\nDiscard them\? \[y\/N\] $/,
  );
  expect((await ask()).stdout).toMatch(
    /^discarded 5 calls\n3 of them were paid, .*: refunds are due \(postern refunds list\)\n1 of them was paid/,
  );
});

test("postern failed discard -o json has the paid sum and the due refunds", async () => {
  await failPaid(fixture, [{ ...USDC, amount: "3200000" }]);
  const command = ["failed", "discard", "--all", "--reason", "x", "-o", "json"];
  const json = async (...more: string[]) => JSON.parse((await here([...command, ...more])).stdout);
  const paid = { confirmed: { calls: 1, amounts: [{ ...USDC, decimals: null, amount: "3200000" }] } };
  expect(await json("--dry-run")).toMatchObject({ paid, refunds_due: null });
  expect(await json("--yes")).toMatchObject({ done: 1, paid, refunds_due: paid });
});
