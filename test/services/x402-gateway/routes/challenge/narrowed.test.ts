import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { JOB_PATH, PRICE, PUBLIC_URL, requiredIn, signOffer, useX402 } from "../../../../fixtures/x402.ts";
import { type Answer, send } from "../../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../../support/long-run.ts";
import { manyTokens } from "../../many-tokens.ts";
import { honouringQuotes, quoteOf, signQuote } from "../../operator-quotes.ts";
import { rateless } from "../../rateless.ts";

const fixture = useX402();
const OTHERS = ["eip155:1001", "eip155:1002", "eip155:1003"];

const networksIn = (answer: Answer) => requiredIn(answer).accepts.map(({ network }) => network);
const inV1 = (answer: Answer) => answer.json<{ accepts: { network: string }[] }>().accepts;
const at = (query: string) => ({ path: `${JOB_PATH}?${query}` });

test("max_offers keeps the first offers in the order of the file, in both versions, and the price list keeps all", async () => {
  const all = manyTokens(fixture.devnet, 3);
  const x402 = await fixture.gateway({ x402: { ...all, max_offers: 2 }, early: true });
  const { network } = fixture.devnet;
  const first = await x402.post();
  expect(networksIn(first)).toEqual([network, OTHERS[0]]);
  expect(inV1(first)).toHaveLength(1);
  const price = await send(x402.address, { method: "GET", path: `${JOB_PATH}/price` });
  expect(price.json<{ settlement_options: object[] }>().settlement_options).toHaveLength(4);
  const foreign = await fixture.gateway({
    x402: { ...all, accepted_tokens: all.accepted_tokens.toReversed(), max_offers: 2 },
    early: true,
  });
  const last = await foreign.post();
  expect(networksIn(last)).toEqual([OTHERS[2], OTHERS[1]]);
  expect(inV1(last)).toEqual([]);
  // If a token has no price, the next one is offered instead.
  const [usdc, ...others] = all.accepted_tokens;
  const tokens = [{ ...usdc, ...rateless }, ...others];
  const unrated = await fixture.gateway({
    x402: { ...all, accepted_tokens: tokens, max_offers: 2 },
    early: true,
  });
  expect(networksIn(await unrated.post())).toEqual(OTHERS.slice(0, 2));
});

test("?network= narrows the offers of a 402 to these networks, repeated or with commas, beyond those that max_offers keeps", async () => {
  const x402 = await fixture.gateway({
    x402: { ...manyTokens(fixture.devnet, 3), max_offers: 1 },
    early: true,
  });
  const { network } = fixture.devnet;
  const asked = async (query: string) => networksIn(await x402.post({}, at(query)));
  expect(await asked("")).toEqual([network]);
  expect(await asked(`network=${OTHERS[2]}`)).toEqual([OTHERS[2]]);
  expect(await asked(`a=b&network=${encodeURIComponent(OTHERS[2] as string)}`)).toEqual([OTHERS[2]]);
  expect(await asked(`network=${OTHERS[2]},${OTHERS[1]}`)).toEqual([OTHERS[1]]);
  expect(await asked(`network=eip155:77,${network}`)).toEqual([network]);
  const wide = await fixture.gateway({ x402: manyTokens(fixture.devnet, 3), early: true });
  const two = await wide.post({}, at(`network=${OTHERS[2]}&network=${network}`));
  expect(networksIn(two)).toEqual([network, OTHERS[2]]);
  expect(inV1(two)).toHaveLength(1);
  expect(inV1(await wide.post({}, at(`network=${OTHERS[2]}`)))).toEqual([]);
  expect(requiredIn(two).resource?.url).toBe(`${PUBLIC_URL}${JOB_PATH}`);
  expect(networksIn(await wide.post())).toHaveLength(4);
});

test.each(sample(["network=", "network=base", "network=eip155:77,eip155:78", "network=eip155:84532%20"]))(
  "an unpaid request for ?%s, where no token is accepted, is refused with 400 and the list of accepted networks",
  async (query) => {
    const x402 = await fixture.gateway();
    const answer = await x402.post({}, at(query));
    expect([answer.status, answer.json()["code"]]).toEqual([400, "payment.network_not_offered"]);
    expect(answer.json()["detail"]).toContain(fixture.devnet.network);
    expect(answer.headers["payment-required"]).toBeUndefined();
  },
);

test("an unpaid request for a network whose token has no rate now is 503, and not refused as an unknown network", async () => {
  const { accepted_tokens, trust_facilitator } = manyTokens(fixture.devnet, 1);
  const tokens = accepted_tokens.map((token, index) => ({ ...token, ...(index === 1 && rateless) }));
  const x402 = await fixture.gateway({ x402: { accepted_tokens: tokens, trust_facilitator }, early: true });
  const answer = await x402.post({}, at(`network=${OTHERS[0]}`));
  expect([answer.status, answer.json()["code"]]).toEqual([503, "price.unavailable"]);
});

onlyInLongRun(() => {
  test("a payment by a narrowed offer is accepted at the job's path with the query and without it, and buys one job", async () => {
    const x402 = await fixture.gateway();
    const narrow = at(`network=${fixture.devnet.network}`);
    const headers = await signOffer(await x402.post({}, narrow), { payer: fixture.payer });
    const first = await x402.post(headers, narrow);
    expect(first.status).toBe(202);
    const again = await x402.post(headers);
    expect([again.status, again.headers["idempotent-replayed"]]).toEqual([202, "true"]);
    expect((await x402.post(headers, at("network=eip155:77"))).status).toBe(202);
    expect(await fixture.charged()).toEqual([PRICE]);
  });
});

test("the refusal of a payment offers the networks of its query again, or all of them if no token is accepted there", async () => {
  const x402 = await fixture.gateway({ x402: manyTokens(fixture.devnet, 2), early: true });
  await eventually("it takes calls", () => x402.gateway.readiness().ready);
  const headers = { "PAYMENT-SIGNATURE": "none" };
  const refused = async (query: string) => networksIn(await send(x402.address, { ...at(query), headers }));
  expect(await refused(`network=${OTHERS[1]}`)).toEqual([OTHERS[1]]);
  expect(await refused("network=eip155:77")).toHaveLength(3);
});

onlyInLongRun(() => {
  test("an offer at an operator's price is narrowed too", async () => {
    const x402 = await fixture.gateway({
      x402: { ...honouringQuotes.x402, ...manyTokens(fixture.devnet, 2) },
      early: true,
    });
    const { header } = signQuote(quoteOf(fixture.payer));
    expect(networksIn(await x402.post(header, at(`network=${OTHERS[1]}`)))).toEqual([OTHERS[1]]);
  });
});
