import { expect, test } from "vitest";
import { readDocument } from "../../docs/blocks.ts";
import { PRICE, useX402 } from "../../fixtures/x402.ts";
import { CLIENTS } from "./clients.ts";

const fixture = useX402();

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
  async ({ name, settings = {}, buy }) => {
    const x402 = await fixture.gateway({ x402: settings });
    const { status, code } = await buy(x402, fixture.payer);
    const said = rows()
      .find(([listed]) => listed === name)
      ?.at(-1);
    expect(said).toBe(status === 202 ? "202" : `${status} \`${String(code)}\``);
    expect(await fixture.charged()).toEqual(status === 202 ? [PRICE] : []);
  },
);
