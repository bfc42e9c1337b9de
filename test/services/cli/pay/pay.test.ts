import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { Refused } from "../../../../services/producer/deliver.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { type Fixture, jsonLines, PRICE, type Ran, startFixture } from "../../../fixtures/payments.ts";
import { JOB_PATH, PUBLIC_URL } from "../../../fixtures/x402.ts";
import { type DevAccount, newPayer } from "../../../support/devnet.ts";
import { tempDir } from "../../../support/temp-dir.ts";

let fixture: Fixture;
let payer: DevAccount;
beforeAll(async () => {
  fixture = await startFixture();
});
beforeEach(async () => {
  payer = await newPayer(fixture.devnet);
});
afterEach(() => fixture.clear());
afterAll(() => fixture.stop());

/** Runs `postern pay` as this payer; whatever it says, it never says the key. */
async function pay(...args: string[]): Promise<Ran> {
  const url = `http://${fixture.x402().address}${JOB_PATH}`;
  const ran = await fixture.postern(["pay", url, ...args], { POSTERN_PAYER_KEY: payer.privateKey });
  expect(ran.stdout + ran.stderr).not.toContain(payer.privateKey.slice(2));
  return ran;
}

/** As `pay`, and a Ctrl-C once it has printed this. */
function payUntil(interruptAt: RegExp): Promise<Ran> {
  const url = `http://${fixture.x402().address}${JOB_PATH}`;
  const env = { POSTERN_PAYER_KEY: payer.privateKey };
  return fixture.postern(["pay", url, "--body", "hello", "--max", "5"], env, interruptAt);
}

async function charged(): Promise<bigint[]> {
  const transfers = await fixture.devnet.chain.transfers(fixture.devnet.seller);
  return transfers.filter(({ from }) => from === payer.address.toLowerCase()).map(({ value }) => value);
}

/** Takes every call; resolves with the bodies it was given. */
async function injectAll(): Promise<{ id: string; body: string }[]> {
  const injected: { id: string; body: string }[] = [];
  await fixture.startProducer(async ({ call, body }) => {
    injected.push({ id: call.id, body: body.toString() });
  });
  return injected;
}

test("one command buys a job: pays once, prints price, signature and receipt, and ends when the runner has it", async () => {
  const injected = await injectAll();
  const ran = await pay("--body", "hello", "--max", "5");
  expect(ran.stderr).toBe("");
  expect(ran.code).toBe(0);
  const id = /accepted: call (c_[0-9a-f]{32}), transaction 0x[0-9a-f]{64}\n/.exec(ran.stdout)?.[1];
  expect(ran.stdout).toMatch(/^price: 3\.2 USDC on eip155:84532, to 0x/);
  expect(ran.stdout).toContain(
    `signed: 3.2 USDC from ${payer.address} to ${fixture.devnet.seller}, valid until `,
  );
  expect(ran.stdout).toMatch(/state: injected\n$/);
  expect(injected).toEqual([{ id, body: "hello" }]);
  expect(await charged()).toEqual([PRICE]);
});

test("the receipt is printed, and is in the JSON: what was paid to whom, in which transaction, for which quote", async () => {
  const [json] = jsonLines(await pay("--max", "5", "--no-follow", "--json"));
  const payment = await fixture.x402().journal.find(String(json?.["call_id"]));
  const receipt = {
    network: fixture.devnet.network,
    asset: fixture.devnet.token,
    symbol: "USDC",
    amount: String(PRICE),
    payer: payer.address.toLowerCase(),
    pay_to: fixture.devnet.seller,
    transaction: json?.["transaction"],
    quote_digest: payment?.terms.quote_digest,
  };
  expect(json?.["receipt"]).toEqual(receipt);

  const { stdout } = await pay("--max", "5", "--no-follow");
  const [, transaction] = /transaction (0x[0-9a-f]{64})\n/.exec(stdout) ?? [];
  const [, ...lines] = /\nreceipt:\n((?: {2}.+\n){7})/.exec(stdout) ?? [];
  const rows = lines.join("").trim().split("\n");
  expect(rows.map((row) => row.trim().split(/ {2,}/))).toEqual([
    ["network", receipt.network],
    ["token", `USDC ${receipt.asset}`],
    ["amount", `${PRICE} (smallest units)`],
    ["payer", receipt.payer],
    ["paid to", receipt.pay_to],
    ["transaction", transaction],
    ["quote", expect.stringMatching(/^0x[0-9a-f]{64}$/)],
  ]);
});

test("the status is asked for where the payment went, whatever host the answer names", async () => {
  await injectAll();
  const ran = await pay("--max", "5");
  const origin = `http://${fixture.x402().address}`;
  expect(ran.stdout).toMatch(
    new RegExp(`followed at ${origin}/x402/calls/c_\\w+, not at ${PUBLIC_URL}/x402/`),
  );
  const [json] = jsonLines(await pay("--max", "5", "--json"));
  expect(json).toMatchObject({
    outcome: "injected",
    status: 202,
    payer: payer.address,
    amount: String(PRICE),
  });
  expect(String(json?.["status_url"])).toMatch(PUBLIC_URL);
  expect(String(json?.["followed_url"])).toMatch(origin);
});

test("the body goes as it is in the file, with its type, and the payment carries an identifier", async () => {
  const file = join(tempDir(), "body");
  writeFileSync(file, Buffer.from([0, 255, 10]));
  const args = ["--body-file", file, "--content-type", "image/x-dot", "--max", "5", "--no-follow", "--json"];
  const [json] = jsonLines(await pay(...args));
  const payment = await fixture.x402().journal.find(String(json?.["call_id"]));
  expect(payment?.call).toMatchObject({ content_type: "image/x-dot", body: "AP8K" });
  expect(payment?.identifier).toMatch(/^[\w-]{16,128}$/);
});

test("an offer over the cap is refused before anything is signed", async () => {
  for (const max of [[], ["--max", "3.199999"]]) {
    const ran = await pay(...max);
    expect(ran).toMatchObject({ code: 1, stdout: "" });
    expect(ran.stderr).toMatch(/^the price is 3\.2 USDC, over --max \S+; nothing was signed\n$/);
  }
  expect((await pay("--max", "3.2", "--no-follow")).code).toBe(0);
  expect((await fixture.devnet.control.requests()).verify).toBe(1);
});

test("an outcome that is unknown is followed by the very same payment: one charge, one job", async () => {
  const injected = await injectAll();
  await fixture.devnet.control.fault({ on: "settle", kind: "drop", acts: true, times: 1 });
  const ran = await pay("--body", "hello", "--max", "5");
  expect(ran.stdout).toContain("no answer yet (503 payment.outcome_unknown");
  expect(ran).toMatchObject({ code: 0, stderr: "" });
  expect(ran.stdout.match(/^signed: /gm)).toHaveLength(1);
  expect(injected).toHaveLength(1);
  expect(await charged()).toEqual([PRICE]);
});

test("a payment whose outcome stays unknown exits 1, says so and hands over what it takes to ask again", async () => {
  await fixture.devnet.control.fault({ on: "settle", kind: "status", status: 500 });
  const ran = await pay("--max", "5", "--timeout", "4");
  expect(ran.code).toBe(1);
  expect(ran.stderr).toContain("Do not pay anew");
  expect(ran.stderr).toMatch(/^Its state: http:\S+\/x402\/calls\/c_[0-9a-f]{32}$/m);
  const header = /PAYMENT-SIGNATURE: ([^\s']+)/.exec(ran.stderr)?.[1] ?? "";
  await fixture.devnet.control.clearFaults();
  await eventually("it is answered", async () => {
    const answer = await fixture.x402().post({ "PAYMENT-SIGNATURE": header }, { body: "" });
    return answer.status === 202;
  });
  expect(await charged()).toEqual([PRICE]);
});

test("a shop that cannot take payments is not waited for: nothing was charged, and it is told why", async () => {
  await fixture.devnet.control.fault({
    on: "verify",
    kind: "refuse",
    reason: "invalid_exact_evm_token_name_mismatch",
  });
  const ran = await pay("--max", "5");
  expect(ran.code).toBe(1);
  expect(ran.stderr).toContain("refused: 503 payment.unavailable");
  expect(ran.stderr).not.toContain("unknown");
  expect((await fixture.devnet.control.requests()).settle).toBe(0);
  expect(await charged()).toEqual([]);
});

test.each([
  ["while an answer is waited for", { kind: "slow", replyDelayMs: 30_000 } as const, /^signed: /m],
  ["between two attempts", { kind: "status", status: 500 } as const, /^no answer yet/m],
])("a Ctrl-C %s, the outcome open, hands over what it takes to ask again", async (_when, fault, at) => {
  await fixture.devnet.control.fault({ on: "settle", ...fault });
  const ran = await payUntil(at);
  expect(ran.code).toBe(1);
  expect(ran.stderr).toContain("whether the payment settled is unknown (interrupted). Do not pay anew");
  const header = /PAYMENT-SIGNATURE: ([^\s']+)/.exec(ran.stderr)?.[1] ?? "";
  await fixture.devnet.control.clearFaults();
  await eventually("it is answered", async () => {
    const answer = await fixture.x402().post({ "PAYMENT-SIGNATURE": header }, { body: "hello" });
    return answer.status === 202;
  });
  expect(await charged()).toEqual([PRICE]);
});

test("a job that fails exits 1 although it is paid for", async () => {
  await fixture.startProducer(async () => {
    throw new Refused("no such job");
  });
  const ran = await pay("--max", "5");
  expect(ran).toMatchObject({ code: 1 });
  expect(ran.stderr).toMatch(/^the job is paid for, and its state is failed; http/);
});

test("--no-follow ends with 0 once the job is accepted; a job that is not injected in time exits 1", async () => {
  const accepted = await pay("--max", "5", "--no-follow", "--json");
  expect(accepted.code).toBe(0);
  expect(jsonLines(accepted)[0]).toMatchObject({ outcome: "accepted" });
  const late = await pay("--max", "5", "--timeout", "3", "--json");
  expect(late.code).toBe(1);
  expect(jsonLines(late)[0]).toMatchObject({ outcome: "failed", state: "queued" });
});

test("a payer without money is refused, and told by whom", async () => {
  payer = await newPayer(fixture.devnet, 0n);
  const ran = await pay("--max", "5");
  expect(ran.code).toBe(1);
  expect(ran.stderr).toMatch(/^refused: 402 payment\.rejected /);
});

test("a URL that sells nothing is paid nothing", async () => {
  const url = `http://${fixture.x402().address}/x402/jobs/1/8`;
  const ran = await fixture.postern(["pay", url], { POSTERN_PAYER_KEY: payer.privateKey });
  expect(ran).toMatchObject({ code: 1, stdout: "" });
  expect(ran.stderr).toContain("asks for no payment, it answers 404 job.not_found");
});

test.each([
  ["", 3],
  ["0x12", 3],
  [`0x${"0".repeat(64)}`, 3],
  ["f".repeat(64), 3],
])("without a usable key in the environment nothing is asked: %j", async (key, code) => {
  const ran = await fixture.postern(["pay", "http://127.0.0.1:1/"], { POSTERN_PAYER_KEY: key });
  expect(ran).toMatchObject({ code, stdout: "", stderr: expect.stringContaining("POSTERN_PAYER_KEY") });
});

test.each([
  [["ftp://x/"]],
  [["http://x/", "--max", "-1"]],
  [["http://x/", "--body", "a", "--body-file", "b"]],
  [["http://x/", "--token", "USDC=6"]],
  [["http://x/", "--key", "0x1"]],
])("a command line that is not clear exits 2: %j", async (args) => {
  expect(await fixture.postern(["pay", ...args], { POSTERN_PAYER_KEY: payer.privateKey })).toMatchObject({
    code: 2,
  });
});
