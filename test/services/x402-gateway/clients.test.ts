import { expect, test } from "vitest";
import { readDocument } from "../../docs/blocks.ts";
import { useInjecting } from "../../fixtures/injecting.ts";
import { PRICE, type TestX402, useX402 } from "../../fixtures/x402.ts";
import { paymentIn } from "../../support/books.ts";
import { LONG_RUN } from "../../support/long-run.ts";
import { newWallet } from "../../support/wallets.ts";
import { CLIENTS } from "./clients.ts";
import { permit2Token } from "./permit2-gateway.ts";

const fixture = useX402();
const inject = useInjecting(fixture.redis, "x402");
const usdt = () => fixture.devnet.permit2Tokens.usdt;

/** The rows of "Clients and wallets" in docs/payments.md: client, version, answer. */
function rows(): string[][] {
  const [, section = ""] = readDocument("docs/payments.md").split("### Clients and wallets\n");
  const lines =
    section
      .split("\n## ")[0]
      ?.split("\n")
      .filter((line) => line.startsWith("| ")) ?? [];
  return lines.slice(1).map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

test("docs/payments.md lists exactly the clients that are tested here", () => {
  const listed = rows().map(([name, version]) => [name, version]);
  expect(listed).toEqual(CLIENTS.map(({ name, version }) => [name, String(version)]));
});

test.each(CLIENTS.filter(({ variant }) => LONG_RUN || !variant))(
  "a purchase by $name has the outcome in docs/payments.md",
  async ({ name, version, settings = {}, payer, permit2, runs, buy }) => {
    const token = permit2 === undefined ? {} : permit2Token(fixture.devnet, "usdt");
    const x402 = await fixture.gateway({ x402: settings, token });
    if (payer !== undefined)
      fixture.payer = await newWallet(fixture.devnet, { deployed: payer === "wallet" });
    if (permit2 !== undefined) await fixture.devnet.chain.mint(fixture.payer.address, PRICE, usdt());
    if (permit2 === "approved") await fixture.devnet.chain.permit2.approve(fixture.payer, usdt());
    if (runs) await inject(async () => ({ status: 200, body: "done" }));
    const { status, code } = await buy(runs ? countedElsewhere(x402) : x402, fixture.payer);
    const isBought = status < 300;
    const said = rows().find(([listed, of]) => listed === name && of === String(version));
    expect(said?.at(-1)).toBe(isBought ? String(status) : `${status} \`${String(code)}\``);
    const asset = permit2 === undefined ? fixture.devnet.token : usdt();
    const charges = await fixture.devnet.chain.chargesOf(fixture.payer.address, asset);
    expect(charges.map(({ value }) => value)).toEqual(isBought ? [PRICE] : []);
  },
);

/** Takes the calls out of the queue with a producer, so that the fixture does not count them as waiting. */
function countedElsewhere(x402: TestX402): TestX402 {
  return {
    ...x402,
    post(headers = {}, more) {
      fixture.foreign.push(paymentIn(headers)?.nonce ?? "");
      return x402.post(headers, more);
    },
  };
}
