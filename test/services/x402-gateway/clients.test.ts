import { expect, test } from "vitest";
import { readDocument } from "../../docs/blocks.ts";
import { PRICE, useX402 } from "../../fixtures/x402.ts";
import { newWallet } from "../../support/wallets.ts";
import { CLIENTS } from "./clients.ts";
import { permit2Token } from "./permit2-gateway.ts";

const fixture = useX402();
const usdt = () => fixture.devnet.permit2Tokens.usdt;

/** The rows of "Clients and wallets" in docs/payments.md: client, version, what is special, what becomes of it. */
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

test("docs/payments.md lists the clients that are tried here, and no others", () => {
  const listed = rows().map(([name, version]) => [name, version]);
  expect(listed).toEqual(CLIENTS.map(({ name, version }) => [name, String(version)]));
});

test.each(CLIENTS)(
  "a purchase by $name becomes what docs/payments.md says",
  async ({ name, settings = {}, payer, permit2, buy }) => {
    const token = permit2 === undefined ? {} : permit2Token(fixture.devnet, "usdt");
    const x402 = await fixture.gateway({ x402: settings, token });
    if (payer !== undefined)
      fixture.payer = await newWallet(fixture.devnet, { deployed: payer === "wallet" });
    if (permit2 !== undefined) await fixture.devnet.chain.mint(fixture.payer.address, PRICE, usdt());
    if (permit2 === "approved") await fixture.devnet.chain.permit2.approve(fixture.payer, usdt());
    const { status, code } = await buy(x402, fixture.payer);
    const said = rows()
      .find(([listed]) => listed === name)
      ?.at(-1);
    expect(said).toBe(status === 202 ? "202" : `${status} \`${String(code)}\``);
    const asset = permit2 === undefined ? fixture.devnet.token : usdt();
    const charges = await fixture.devnet.chain.chargesOf(fixture.payer.address, asset);
    expect(charges.map(({ value }) => value)).toEqual(status === 202 ? [PRICE] : []);
  },
);
