import { isDeepStrictEqual } from "node:util";
import { type Accounts, changes, sum } from "../../shop/accounts.ts";
import type { Shop } from "../../shop/shop.ts";
import { usdc } from "../../shop/usdc.ts";
import type { Stage } from "../../stage.ts";

/** What was paid, by everybody who can say, and whether it adds up to the token's unit. */
export function showAccounts(stage: Stage, shop: Shop, accounts: Accounts): void {
  stage.say("");
  for (const [name, number] of requestRows(shop))
    stage.say(`${name.padEnd(46)}${String(number).padStart(5)}`);
  const { settled, charged, ranOnce } = accounts;
  const row = (name: string, count: number, units: string) =>
    stage.say(`${name.padEnd(46)}${String(count).padStart(5)}   ${units}`.trimEnd());
  row("payments settled, by the gateway's journal", settled.count, `${usdc(settled.units)} USDC`);
  row("charges, by the chain's logs", charged.count, `${usdc(charged.units)} USDC`);
  row("paid jobs run once, by the runner's log", ranOnce, "");

  stage.say("");
  stage.say(
    `${"USDC".padEnd(22)}${["before", "after", "change"].map((title) => title.padStart(18)).join("")}`,
  );
  for (const [name, change] of changes(shop, accounts)) {
    const numbers = [shop.before.get(name) ?? 0n, accounts.after.get(name) ?? 0n, change];
    stage.say(`${name.padEnd(22)}${numbers.map((units) => usdc(units).padStart(18)).join("")}`);
  }
  stage.say("");
  const found = sums(shop, accounts);
  const line = `${settled.count} payments settled = ${charged.count} charges = ${ranOnce} paid jobs run; ${found.paid} USDC paid = ${found.got} USDC received`;
  if (isDeepStrictEqual(found, wanted(shop, accounts))) stage.check(`It adds up: ${line}`, true, true);
  else stage.check(`It does not add up: ${line}`, found, wanted(shop, accounts));
}

function requestRows({ tally }: Shop): [string, number][] {
  return [
    ["paid requests sent", tally.sent],
    ["  answered 202: new payments", tally.accepted.size],
    ["  answered 202: a payment that had its 202", tally.repeats],
    ["  answered 503: to be sent again", tally.open],
    ["  refused", tally.refused],
    ["  not answered: the gateway was killed", tally.unanswered],
  ];
}

function sums({ tally, ...shop }: Shop, accounts: Accounts) {
  const changed = [...changes({ tally, ...shop }, accounts)];
  const ofSeller = changed.filter(([name]) => name === "seller").map(([, units]) => units);
  const ofPayers = changed.filter(([name]) => name !== "seller").map(([, units]) => units);
  return {
    requests: tally.accepted.size + tally.repeats + tally.open + tally.refused + tally.unanswered,
    accepted: [...tally.accepted].toSorted(),
    charges: accounts.charged.count,
    jobs: accounts.ranOnce,
    settled: usdc(accounts.settled.units),
    charged: usdc(accounts.charged.units),
    paid: usdc(-sum(ofPayers)),
    got: usdc(sum(ofSeller)),
  };
}

/** All of it follows from the journal: what is settled was told, charged and run, once each. */
function wanted({ tally }: Shop, { settled }: Accounts): ReturnType<typeof sums> {
  const units = usdc(settled.units);
  return {
    requests: tally.sent,
    accepted: [...settled.ids].toSorted(),
    charges: settled.count,
    jobs: settled.count,
    settled: units,
    charged: units,
    paid: units,
    got: units,
  };
}
