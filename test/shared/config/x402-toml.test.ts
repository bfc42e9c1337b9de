import { generateKeyPairSync } from "node:crypto";
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { x402Toml } from "../../../shared/config/x402-toml.ts";
import { currentOffers } from "../../../shared/pricing/prices.ts";
import { fixedRateOf } from "../../../shared/pricing/rates/sources/fixed.ts";
import { newReceiptKey } from "../../support/receipt-key.ts";
import { problemsOf as problemsThrown } from "./files.ts";
import {
  CONTRACT,
  JOBS,
  type Lines,
  load,
  PAY_TO,
  policyTable,
  problems,
  problemsOf,
  restricted,
  tokenTable,
  USDC,
  x402,
} from "./x402-files.ts";

const RECEIPT = newReceiptKey();
const EC_KEY = JSON.stringify(
  generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" }),
);

test("an x402.toml with only the required keys has the defaults of the design", () => {
  const { x402: found } = load({ x402: x402(), jobs: JOBS });
  expect(found).toMatchObject({
    bind_address: "0.0.0.0:8402",
    public_url: "https://jobs.example.com",
    facilitators: [{ url: "https://facilitator.example.com", headers: {} }],
    quote_ttl_secs: 300,
    max_timeout_secs: 120,
    payment_window_secs_max: 3660,
    open_payments_per_payer: 8,
    trust_facilitator: false,
    quote_operators: [],
    default_invocation_mode: "public_paid",
    body_limit_bytes: 1024 * 1024,
    request_timeout_secs: 15,
    settle_timeout_secs: 20,
    facilitator_timeout_secs: 10,
    job_policies: [],
    accepted_tokens: [{ markup_bps: 0, transfer_method: "eip3009", confirmations: 2, asset: USDC }],
  });
});

test("the seller's name is the host of public_url by default, and [shop] sets it, its tags and its icon", () => {
  expect(load({ x402: x402({ public_url: '"https://jobs.example.com:8443/sold"' }) }).x402?.shop).toEqual({
    name: "jobs.example.com:8443",
    tags: [],
  });
  const table =
    '[shop]\nname = "Example jobs"\ntags = ["text"]\nicon_url = "https://jobs.example.com/i.png"\n';
  expect(load({ x402: x402({}, { more: table }) }).x402?.shop).toEqual({
    name: "Example jobs",
    tags: ["text"],
    icon_url: "https://jobs.example.com/i.png",
  });
});

test.each([
  ['name = ""', /shop\.name: must be 1 to 32 printable ASCII/],
  [`name = "${"a".repeat(33)}"`, /shop\.name: must be 1 to 32 printable ASCII/],
  ['name = "Caf\u00e9"', /shop\.name: must be 1 to 32 printable ASCII/],
  ['name = " a"', /shop\.name: .*without a space/],
  ['tags = ["a", "b", "c", "d", "e", "f"]', /shop\.tags: /],
  ['tags = [""]', /shop\.tags\[0\]: must be 1 to 32 printable ASCII/],
  ['icon_url = "data:image/png;base64,AAAA"', /shop\.icon_url: must be an http or https URL/],
  ['logo = "a"', /shop\.logo: /],
])("[shop] with %s is refused, because x402 limits these values", (line, message) => {
  expect(problemsOf({}, { more: `[shop]\n${line}\n` })).toEqual([expect.stringMatching(message)]);
});

test("without x402.toml the payment gateway is off", () => {
  expect(load({})).toMatchObject({ x402: undefined, prices: new Map() });
});

test("rate and markup at the top of x402.toml apply to every token without its own", () => {
  const own = tokenTable({ network: '"eip155:1"', rate_per_native_unit: '"0.5"', markup_bps: "7" });
  const found = load({
    x402: x402(
      { rate_per_native_unit: '"3100.25"', markup_bps: "200" },
      { token: { rate_per_native_unit: undefined }, more: own },
    ),
    jobs: JOBS,
  });
  expect(found.x402?.accepted_tokens.map((token) => [token.rate_per_native_unit, token.markup_bps])).toEqual([
    ["3100.25", 200],
    ["0.5", 7],
  ]);
});

test("a job's offers are its price in every token, in the order of the tokens", () => {
  const dai = tokenTable({ asset: `"${CONTRACT}"`, symbol: '"DAI"', decimals: "18", markup_bps: "100" });
  const { prices, x402: found } = load({ x402: x402({}, { more: dai }), jobs: JOBS });
  const offers = currentOffers(prices.get("1/7")!.priceWei, found!.accepted_tokens, fixedRateOf);
  expect(offers.map(({ token, amount }) => [token.symbol, amount])).toEqual([
    ["USDC", 320_000n],
    ["DAI", 323_200_000_000_000_000n],
  ]);
});

test("every problem of x402.toml and job_pricing.toml is reported at once, including repeats", () => {
  const huge = `"${10n ** 77n}"`;
  const found = problems({
    postern: "nope = 1\n",
    x402: x402(
      {
        public_url: undefined,
        quote_secret: '""',
        extra: "1",
        max_timeout_secs: "25",
        rate_per_native_unit: '"2"',
      },
      {
        token: { pay_to: '"0x1"', rpc_url: undefined },
        more:
          tokenTable({ asset: `"${USDC.toLowerCase()}"`, decimals: "18", rate_per_native_unit: undefined }) +
          policyTable({ service_id: "1", job_index: "7", invocation_mode: '"disabled"' }) +
          policyTable(restricted),
      },
    ),
    jobs: `[1]\n7 = ${huge}\n01 = "1"\n`,
  });
  expect(found.map((line) => line.split(": ").slice(0, 2).join(" ")).sort()).toEqual([
    "job_pricing.toml 1.01",
    "job_pricing.toml 1.7",
    "postern.toml nope",
    "x402.toml accepted_tokens[0].pay_to",
    "x402.toml accepted_tokens[0].rpc_url",
    "x402.toml accepted_tokens[1].asset",
    "x402.toml extra",
    "x402.toml job_policies[1].job_index",
    "x402.toml max_timeout_secs",
    "x402.toml public_url",
    "x402.toml quote_secret",
  ]);
  expect(found.find((line) => line.startsWith("job_pricing.toml: 1.7"))).toMatch(
    /more than 2\^256-1 units of accepted_tokens\[1\] in x402\.toml/,
  );
});

test("an x402.toml with a syntax error is one problem", () => {
  expect(problems({ x402: "a = 1\nb = = 2", jobs: JOBS })).toEqual([
    expect.stringMatching(/^x402\.toml: Invalid TOML document: invalid value$/),
  ]);
});

test.each([
  ["a public_url with a query", { public_url: '"https://a.example/?b"' }, /public_url/],
  ["a public_url of another scheme", { public_url: '"ftp://a.example"' }, /public_url/],
  ["no facilitator", { facilitator_url: "[]" }, /facilitator_url: must list at least one/],
  ["plain http to a facilitator elsewhere", { facilitator_url: '"http://a.example"' }, /facilitator_url/],
  [
    "one facilitator of several over plain http",
    { facilitator_url: '["https://a.example", "http://10.0.0.1"]' },
    /facilitator_url\[1\]: must be an https URL/,
  ],
  [
    "a host that only begins like loopback",
    { facilitator_url: '"http://127.0.0.1.example"' },
    /facilitator_url/,
  ],
  [
    "a receipt key that is no key",
    { receipt_keys: '"x"' },
    /receipt_keys\[0\]: must be an Ed25519 private key/,
  ],
  [
    "a public key in place of the one that signs",
    { receipt_keys: `'${RECEIPT.publicJwk}'` },
    /receipt_keys\[0\]: must be an Ed25519 private key as PEM or JWK/,
  ],
  [
    "hex digits, which may be a public key, as a receipt key",
    { receipt_keys: `'${"ab".repeat(32)}'` },
    /receipt_keys\[0\]: must be/,
  ],
  [
    "a receipt key of another curve",
    { receipt_keys: `['${RECEIPT.jwk}', '${EC_KEY}']` },
    /receipt_keys\[1\]: must be an Ed25519 key/,
  ],
  ["no quote_secret", { quote_secret: undefined }, /quote_secret: is missing/],
  ["a quote that lives too short", { quote_ttl_secs: "9" }, /quote_ttl_secs/],
  [
    "an authorization that could not be settled",
    { max_timeout_secs: "30" },
    /above settle_timeout_secs \+ 10/,
  ],
  [
    "a window in which who signs for the offered time by a clock ahead is refused",
    { payment_window_secs_max: "179" },
    /payment_window_secs_max: must be at least max_timeout_secs \+ 60/,
  ],
  [
    "an offered time as long as the window",
    { max_timeout_secs: "3600", payment_window_secs_max: "3600" },
    /payment_window_secs_max: must be at least/,
  ],
  ["a body limit over 64 MiB", { body_limit_bytes: "67108865" }, /body_limit_bytes/],
  ["restricted_paid for all jobs", { default_invocation_mode: '"restricted_paid"' }, /needs a contract/],
  [
    "an operator that is no address",
    {
      quote_operators: '["0x12"]',
      quote_domain: '{ chain_id = 1, verifying_contract = "0x036CbD53842c5426634e7929541eC2318f3dCF7e" }',
    },
    /quote_operators\[0\]: must be an address/,
  ],
  [
    "operators without what they sign for",
    { quote_operators: '["0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"]' },
    /quote_domain: is missing/,
  ],
  [
    "a header the gateway sets",
    { facilitator_headers: '{ Host = "x" }' },
    /facilitator_headers\.Host: must not be set: the gateway sets it/,
  ],
  ["a header name with a space", { facilitator_headers: '{ "a b" = "x" }' }, /must be a header name/],
  [
    "a header twice",
    { facilitator_headers: '{ aa = "x", AA = "y" }' },
    /facilitator_headers\.AA: is listed twice/,
  ],
  ["a header value of two lines", { facilitator_headers: '{ aa = "x\\ny" }' }, /must be visible ASCII/],
] as [string, Lines, RegExp][])("an x402.toml with %s is refused", (_what, top, problem) => {
  expect(problemsOf(top)).toEqual([expect.stringMatching(problem)]);
});

test("an x402.toml with no token is refused", () => {
  const text = x402().replace(tokenTable(), "accepted_tokens = []\n");
  expect(problems({ x402: text })).toEqual([expect.stringMatching(/must list at least one token/)]);
});

const mixed = PAY_TO.replace("f39F", "F39F");
test.each([
  ["a network that is not CAIP-2", { network: '"base"' }, /network: must be "eip155:"/],
  ["a padded chain id", { network: '"eip155:01"' }, /network/],
  ["a chain id beyond 2^53-1", { network: '"eip155:9007199254740993"' }, /network/],
  ["a wrong checksum", { pay_to: `"${mixed}"` }, /pay_to: must have a valid EIP-55 checksum/],
  [
    "a wrong checksum of the asset",
    { asset: `"${USDC.replace("6C", "6c")}"` },
    /asset: must have a valid EIP-55 checksum/,
  ],
  ["the zero address to pay to", { pay_to: `"0x${"0".repeat(40)}"` }, /pay_to: must not be the zero address/],
  ["the zero address as asset", { asset: `"0x${"0".repeat(40)}"` }, /asset: must not be the zero address/],
  ["an address without 0x", { pay_to: `"${PAY_TO.slice(2)}"` }, /pay_to: must be an address/],
  ["37 decimals", { decimals: "37" }, /decimals/],
  ["a rate as a TOML number", { rate_per_native_unit: "3200" }, /rate_per_native_unit: must be quoted/],
  ["no rate anywhere", { rate_per_native_unit: undefined }, /rate_per_native_unit/],
  ["a rate of zero", { rate_per_native_unit: '"0.00"' }, /must be above 0/],
  ["a rate with an exponent", { rate_per_native_unit: '"1e3"' }, /must be a decimal number/],
  ["a rate below zero", { rate_per_native_unit: '"-1"' }, /must be a decimal number/],
  ["a rate with commas", { rate_per_native_unit: '"3,200"' }, /must be a decimal number/],
  ["a fractional markup", { markup_bps: "1.5" }, /markup_bps/],
  ["a markup over 10,000 %", { markup_bps: "1000001" }, /markup_bps/],
  ["an unknown transfer_method", { transfer_method: '"approve"' }, /transfer_method: must be "eip3009"/],
  ["no EIP-712 name", { eip3009_name: '""' }, /eip3009_name: is empty/],
  ["no EIP-712 version", { eip3009_version: undefined }, /eip3009_version/],
  [
    "plain http to a node elsewhere",
    { rpc_url: '"http://node.example.com"' },
    /rpc_url: must be an https URL/,
  ],
  ["no rpc_url", { rpc_url: undefined }, /rpc_url: is missing/],
  ["more than 1000 confirmations", { confirmations: "1001", void_depth: "2000" }, /confirmations/],
  ["a void_depth that is not above confirmations", { confirmations: "512" }, /void_depth: must be above/],
  ["an unknown event_order", { event_order: '"any"' }, /event_order/],
] as [string, Lines, RegExp][])("a token with %s is refused", (_what, token, problem) => {
  expect(problemsOf({}, { token })).toEqual([expect.stringMatching(problem)]);
});

test("a token without an EIP-712 domain gets a hint about Permit2, and a token with Permit2 must have none", () => {
  const without = { eip3009_name: undefined, eip3009_version: undefined };
  expect(problemsOf({}, { token: without })).toEqual([
    expect.stringMatching(
      /eip3009_name: is missing: .*EIP-712 domain.* name\(\); .*transfer_method = "permit2"/,
    ),
    expect.stringMatching(/eip3009_version: is missing: .*EIP-712 domain.* version\(\)/),
  ]);
  expect(problemsOf({}, { token: { ...without, transfer_method: '"permit2"' } })).toEqual([]);
  expect(problemsOf({}, { token: { transfer_method: '"permit2"', event_order: '"used_first"' } })).toEqual([
    expect.stringMatching(/eip3009_name: is used only with transfer_method = "eip3009"/),
    expect.stringMatching(/eip3009_version: is used only with/),
    expect.stringMatching(/event_order: is used only with/),
  ]);
});

test.each([
  ["a facilitator on this machine over http", { facilitator_url: '"http://127.0.0.1:4022/x402"' }, {}],
  ["a facilitator at ::1", { facilitator_url: '["http://[::1]:4022", "http://localhost:1"]' }, {}],
  ["no rpc_url where the facilitator is trusted", { trust_facilitator: "true" }, { rpc_url: undefined }],
  ["a receipt key, and a retired one", { receipt_keys: `['${RECEIPT.jwk}', '${RECEIPT.publicJwk}']` }, {}],
  [
    "receipt keys as PEM, also in one line",
    { receipt_keys: JSON.stringify([RECEIPT.pem, RECEIPT.publicPem.replaceAll("\n", "\\n")]) },
    {},
  ],
  ["several quote secrets", { quote_secret: '["0123456789abcdef", "env:OLD_SECRET"]' }, {}],
] as [string, Lines, Lines][])("an x402.toml with %s is accepted", (_what, top, token) => {
  expect(load({ x402: x402(top, { token }) }, { OLD_SECRET: "fedcba9876543210" }).x402).toBeDefined();
});

test("an address in one case is accepted, and is converted to its checksum form", () => {
  const token = { asset: `"${USDC.toLowerCase()}"`, pay_to: `"0x${PAY_TO.slice(2).toUpperCase()}"` };
  const [found] = load({ x402: x402({}, { token }) }).x402?.accepted_tokens ?? [];
  expect([found?.asset, found?.pay_to]).toEqual([USDC, PAY_TO]);
});

test("headers for facilitators are stored under their lower-case name, with values that cannot be printed", () => {
  const top = { facilitator_headers: '{ Authorization = "env:FACILITATOR" }' };
  const { x402: found } = load({ x402: x402(top) }, { FACILITATOR: "Bearer canary-canary" });
  expect(found?.facilitators[0]?.headers["authorization"]?.reveal()).toBe("Bearer canary-canary");
  expect(inspect(found, { depth: 20 })).not.toContain("canary");
  expect(JSON.stringify(found)).not.toContain("canary");
});

const policy = (lines: Lines) => ({ x402: x402({}, { more: policyTable({ ...restricted, ...lines }) }) });

test("by default a job policy permits a caller's proof for at most an hour", () => {
  const caps = [{}, { caller_expiry_secs_max: "9000000000" }].map(
    (lines) => load(policy(lines)).x402?.job_policies[0],
  );
  expect(caps).toEqual([
    expect.objectContaining({ caller_expiry_secs_max: 3600, contract: CONTRACT }),
    expect.objectContaining({ caller_expiry_secs_max: 9_000_000_000 }),
  ]);
});

test.each([
  ["restricted_paid without auth_mode", { auth_mode: undefined }, /auth_mode/],
  ["restricted_paid without contract", { contract: undefined }, /contract/],
  ["restricted_paid without rpc_url", { rpc_url: undefined }, /rpc_url: is missing/],
  ["an unknown mode", { invocation_mode: '"free"' }, /invocation_mode/],
  [
    "an auth_mode without restricted_paid",
    { invocation_mode: '"public_paid"', rpc_url: undefined, contract: undefined },
    /auth_mode: unknown key/,
  ],
  ["a job index beyond 2^32-1", { job_index: "4294967296" }, /job_index/],
  [
    "a limit on expiry for a policy without signatures",
    { auth_mode: '"payer_is_caller"', caller_expiry_secs_max: "10" },
    /caller_expiry_secs_max: unknown key/,
  ],
  [
    "a contract with a wrong checksum",
    { contract: `"${CONTRACT.replace("C5", "c5")}"` },
    /contract: must have a valid EIP-55 checksum/,
  ],
] as [string, Lines, RegExp][])("a job policy with %s is refused", (_what, lines, problem) => {
  expect(problems(policy(lines))).toEqual([expect.stringMatching(problem)]);
});

const warnings = (top: Lines, more = "") => load({ x402: x402(top, { more }), jobs: JOBS }).warnings;

test("a complete x402.toml causes no warning", () => {
  expect(warnings({ public_url: '"http://localhost:8402"' })).toEqual([]);
});
test.each([
  ["http on a public host", { public_url: '"http://jobs.example.com"' }, "", /public_url: uses http/],
  ["a trusted facilitator", { trust_facilitator: "true" }, "", /trust_facilitator: is on/],
  ["a short secret", { quote_secret: '"short"' }, "", /quote_secret: the secret has only 5 bytes/],
  [
    "a policy of a job that has no price",
    {},
    policyTable({ ...restricted, job_index: "8" }),
    /job 8 of service 1/,
  ],
] as [string, Lines, string, RegExp][])(
  "an x402.toml with %s is accepted with a warning",
  (_what, top, more, warning) => {
    expect(warnings(top, more)).toEqual([expect.stringMatching(warning)]);
  },
);
test("an x402.toml without any job with a price is accepted with a warning", () => {
  expect(load({ x402: x402() }).warnings).toEqual([expect.stringMatching(/no job has a price/)]);
});

test.each([
  ["by default", { default_invocation_mode: '"disabled"' }, ""],
  ["by its policy", {}, policyTable({ service_id: "1", job_index: "7", invocation_mode: '"disabled"' })],
])("an x402.toml whose only job is disabled %s is accepted with a warning", (_what, top, more) => {
  expect(warnings(top, more)).toEqual([
    expect.stringMatching(/every job with a price is disabled, so no job is sold/),
  ]);
});

/** Makes `count` tokens, each on its own chain. */
const tokens = (count: number) =>
  Array.from({ length: count - 1 }, (_, index) => tokenTable({ network: `"eip155:${index + 1}"` })).join("");

test("an x402.toml whose 402 is too large for a default nginx is accepted with a warning that names the size", () => {
  const bySize = (top: Lines, more: string) => warnings(top, more).filter((line) => / 502 /.test(line));
  expect(bySize({}, tokens(4))).toEqual([]);
  expect(bySize({}, tokens(5))).toEqual([
    expect.stringMatching(
      /x402\.toml: accepted_tokens: 5 offers .* \d{4} bytes.* 502 .*\. Set max_offers, .*proxy_buffer_size/,
    ),
  ]);
  expect(bySize({ max_offers: "4" }, tokens(6))).toEqual([]);
  expect(bySize({ max_offers: "5" }, tokens(7))).toEqual([
    expect.stringMatching(/5 offers .*lower max_offers/),
  ]);
  expect(problemsOf({ max_offers: "0" })).toEqual([expect.stringMatching(/max_offers: must be at least 1/)]);
});

test("no problem of x402.toml contains a secret", () => {
  const canary = "canary-canary-canary";
  const found = problemsOf(
    { facilitator_headers: `{ aa = "${canary}\\n" }`, quote_secret: `[["${canary}"]]` },
    { token: { rpc_url: `"http://${canary}.example/${canary}"` } },
  );
  expect(found).toHaveLength(3);
  expect(found.join("\n")).not.toContain(canary);
});

const facilitatorTable = (lines: Lines = {}): string =>
  `[[facilitators]]\n${Object.entries({ url: '"https://a.example"', ...lines })
    .map(([key, value]) => `${key} = ${value}\n`)
    .join("")}`;
const instead = { facilitator_url: undefined };
const WITH_CREDENTIAL = { facilitator_headers: '{ Authorization = "0123456789abcdef" }' };

test("each of [[facilitators]] has its own credentials, and one facilitator_url becomes a list of one", () => {
  const more =
    facilitatorTable({ headers: '{ X-Key = "env:KEY_OF_A" }' }) +
    facilitatorTable({ url: '"https://b.example/x402/"' });
  const found = load({ x402: x402(instead, { more }) }, { KEY_OF_A: "0123456789abcdef" }).x402?.facilitators;
  expect(found?.map(({ url, headers }) => [url, headers["x-key"]?.reveal()])).toEqual([
    ["https://a.example", "0123456789abcdef"],
    ["https://b.example/x402", undefined],
  ]);
  const one = load({ x402: x402(WITH_CREDENTIAL) }).x402?.facilitators;
  expect(one?.map(({ url, headers }) => [url, headers["authorization"]?.reveal()])).toEqual([
    ["https://facilitator.example.com", "0123456789abcdef"],
  ]);
});

test.each([
  [
    "no facilitator at all",
    instead,
    "",
    /facilitator_url: is missing: set facilitator_url or \[\[facilitators\]\]/,
  ],
  [
    "both ways",
    {},
    facilitatorTable(),
    /facilitators: must not be set together with facilitator_url: set one/,
  ],
  [
    "credentials for several facilitators, each of which would get them",
    { facilitator_url: '["https://a.example", "https://b.example"]', ...WITH_CREDENTIAL },
    "",
    /facilitator_headers: .* for several, set the headers of each in \[\[facilitators\]\]/,
  ],
  [
    "credentials that belong to none",
    { ...instead, ...WITH_CREDENTIAL },
    facilitatorTable(),
    /facilitator_headers: needs exactly one facilitator_url/,
  ],
  [
    "one facilitator twice",
    { facilitator_url: '["https://a.example/", "https://A.example"]' },
    "",
    /facilitator_url\[1\]: is listed twice/,
  ],
  [
    "one of [[facilitators]] twice",
    instead,
    facilitatorTable() + facilitatorTable({ url: '"https://a.example:443"' }),
    /facilitators\[1\]\.url: is listed twice/,
  ],
  [
    "plain http to one of [[facilitators]]",
    instead,
    facilitatorTable({ url: '"http://a.example"' }),
    /facilitators\[0\]\.url: must be an https URL/,
  ],
] as [string, Lines, string, RegExp][])("an x402.toml with %s is refused", (_what, top, more, problem) => {
  expect(problemsOf(top, { more })).toEqual([expect.stringMatching(problem)]);
});

test("rules between the keys of facilitators also apply to a library's table", () => {
  const table = {
    public_url: "https://a.example",
    facilitator_url: ["https://b.example", "https://c.example"],
    facilitator_headers: { authorization: "0123456789abcdef" },
    quote_secret: "0123456789abcdef",
    accepted_tokens: load({ x402: x402() }).x402?.accepted_tokens.map(
      ({ rpc_url, eip3009_name, eip3009_version, ...token }) => ({
        ...{ network: token.network, asset: token.asset, symbol: token.symbol, decimals: token.decimals },
        ...{ pay_to: token.pay_to, rate_per_native_unit: "1", eip3009_name, eip3009_version },
      }),
    ),
  };
  expect(x402Toml({ env: {} }).safeParse(table).error?.issues).toMatchObject([
    { path: ["facilitator_headers"] },
  ]);
});

const ed25519 = () => {
  const { d = "", x = "" } = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
  return { seed: Buffer.from(d, "base64url"), publicKey: Buffer.from(x, "base64url") };
};
const ecPem = (namedCurve: string) =>
  generateKeyPairSync("ec", { namedCurve }).privateKey.export({ format: "pem", type: "pkcs8" }) as string;
const cdp = (key_secret: string, more: Lines = {}) => ({
  x402: x402(instead, {
    more: facilitatorTable({ cdp: '{ key_id = "env:CDP_ID", key_secret = "env:CDP_SECRET" }', ...more }),
  }),
  env: { CDP_ID: "organizations/0/apiKeys/1", CDP_SECRET: key_secret },
});

test("an API key of CDP is 64 bytes of Ed25519 in base64, or an ES256 key as PEM, with real or escaped line breaks", () => {
  const { seed, publicKey } = ed25519();
  const pem = ecPem("P-256");
  for (const secret of [
    Buffer.concat([seed, publicKey]).toString("base64"),
    pem,
    pem.trim().replaceAll("\n", "\\n"),
    `${pem}\n`,
  ]) {
    const { x402, env } = cdp(secret);
    const { warnings, x402: found } = load({ x402, jobs: JOBS }, env);
    expect(found?.facilitators[0]?.cdp?.key_id.reveal()).toBe("organizations/0/apiKeys/1");
    expect(warnings).toEqual([]);
  }
});

test.each([
  ["of 63 bytes", () => Buffer.concat([ed25519().seed, ed25519().publicKey.subarray(1)]).toString("base64")],
  ["of a seed alone", () => ed25519().seed.toString("base64")],
  ["of no base64", () => "!".repeat(88)],
  ["of another curve", () => ecPem("secp256k1")],
  [
    "of RSA",
    () =>
      generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "pem", type: "pkcs8" }),
  ],
  ["of a PEM that is cut off", () => ecPem("P-256").slice(0, 100)],
  [
    "that is public",
    () =>
      generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey.export({ format: "pem", type: "spki" }),
  ],
])(
  "a CDP key %s stops the start with a message that names the setting and contains nothing of the key",
  (_what, make) => {
    const secret = String(make());
    const { x402, env } = cdp(secret);
    const found = problemsThrown(() => load({ x402 }, env));
    expect(found).toEqual([
      expect.stringMatching(
        /facilitators\[0\]\.cdp\.key_secret: must be the secret of a CDP API key: an Ed25519/,
      ),
    ]);
    expect(found.join()).not.toContain(secret.slice(0, 20).replace("-----BEGIN", ""));
  },
);

test("an Ed25519 key whose halves belong to different keys is refused, and so is an Authorization beside a key", () => {
  const torn = cdp(Buffer.concat([ed25519().seed, ed25519().publicKey]).toString("base64"));
  expect(problemsThrown(() => load({ x402: torn.x402 }, torn.env))).toEqual([
    expect.stringMatching(/cdp\.key_secret: is an Ed25519 key whose public half does not match its seed/),
  ]);
  const both = cdp(ecPem("P-256"), { headers: '{ authorization = "0123456789abcdef" }' });
  expect(problemsThrown(() => load({ x402: both.x402 }, both.env))).toEqual([
    expect.stringMatching(
      /facilitators\[0\]\.headers\.authorization: must not be set together with cdp, which sets this header/,
    ),
  ]);
});
