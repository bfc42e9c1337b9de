import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { DevAccount } from "../../../../services/dev/chain/chain.ts";
import { Refused } from "../../../../services/producer/retry-policy.ts";
import type { Delivery } from "../../../../shared/call-search/deliver-result.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { jsonLines, problemOf, type Ran } from "../../../fixtures/postern.ts";
import { JOB_PATH, PRICE, PUBLIC_URL } from "../../../fixtures/x402.ts";
import { newPayer } from "../../../support/devnet.ts";
import { LONG_RUN, onlyInLongRun, sample } from "../../../support/long-run.ts";
import { newReceiptKey } from "../../../support/receipt-key.ts";
import { deliverResultOn, tellProgressOn } from "../../../support/results.ts";
import { tempDir } from "../../../support/temp-dir.ts";
import { interruptingAt, runHere } from "../run-here.ts";
import { changed, honestly, relay, useFront } from "./use-front.ts";

const payments = usePayments();
const startFront = useFront(payments);
const { run } = payments.postern;

type As = { payer?: DevAccount; path?: string };

/** Runs `postern pay` in this process, and checks that its output never contains the payer's key. */
async function payAs({ payer = payments.payer, path = JOB_PATH }: As, ...args: string[]) {
  const env = { POSTERN_PAYER_KEY: payer.privateKey };
  return discreet(payer, await runHere(["pay", urlOf(path), ...args], env));
}

const payHere = (...args: string[]) => payAs({}, ...args);

/** Runs `postern pay`, which gets a Ctrl-C: in the long run as a process, and otherwise in this process. */
async function payInterrupted(args: readonly string[], interruptAt: RegExp) {
  const { payer } = payments;
  const env = { POSTERN_PAYER_KEY: payer.privateKey };
  const words = ["pay", urlOf(JOB_PATH), ...args];
  const ran = LONG_RUN
    ? run(words, { env, interruptAt })
    : runHere(words, env, {}, interruptingAt(interruptAt));
  return discreet(payer, await ran);
}

/** Runs `postern pay`, and passes each line to `onLine` as it is printed. */
const payTelling = (onLine: (line: string) => void, ...args: string[]) =>
  runHere(["pay", urlOf(JOB_PATH), ...args], { POSTERN_PAYER_KEY: payments.payer.privateKey }, {}, onLine);

const urlOf = (path: string): string => `http://${payments.gateway.address}${path}`;

function discreet<R extends Pick<Ran, "stdout" | "stderr">>({ privateKey }: DevAccount, ran: R): R {
  expect(ran.stdout + ran.stderr).not.toContain(privateKey.slice(2));
  return ran;
}

/** The last line of -o json. */
const outcomeOf = (ran: Pick<Ran, "stdout">) => jsonLines(ran).at(-1);

/** Takes every call. Resolves with the bodies of the calls. */
async function injectAll(): Promise<{ id: string; body: string }[]> {
  const injected: { id: string; body: string }[] = [];
  await payments.startProducer(async ({ call, body }) => {
    injected.push({ id: call.id, body: body.toString() });
    return { status: 200, contentType: "text/plain", body: "forty-two\n" };
  });
  return injected;
}

/** Sends the payment that a run of `postern pay` printed once more, after the obstacle is gone. */
async function sendAgain({ stderr }: Pick<Ran, "stderr">, body: string): Promise<void> {
  const header = /PAYMENT-SIGNATURE: ([^\s']+)/.exec(stderr)?.[1] ?? "";
  await payments.devnet.control.clearFaults();
  await eventually("it is answered", async () => {
    const answer = await payments.gateway.post({ "PAYMENT-SIGNATURE": header }, { body });
    return answer.status === 202;
  });
  expect(await payments.charged()).toEqual([PRICE]);
}

/** Restarts the gateway so that it soon gives up waiting for the outcome of a settle. */
const settlingBriefly = (): Promise<void> => payments.restartGateway({ x402: { settle_timeout_secs: 1 } });

test("postern pay buys one job, prints price, signature and receipt, follows it, and prints its output", async () => {
  const injected = await injectAll();
  const ran = await payHere("--body", "hello", "--max", "5");
  expect(ran.stderr).toBe("");
  expect(ran.code).toBe(0);
  const id = /accepted: call (c_[0-9a-f]{32}), transaction 0x[0-9a-f]{64}\n/.exec(ran.stdout)?.[1];
  expect(ran.stdout).toMatch(/^price: 3\.2 USDC on eip155:84532, to 0x/);
  expect(ran.stdout).toContain(
    `signed: 3.2 USDC from ${payments.payer.address} to ${payments.devnet.seller}, valid until `,
  );
  expect(ran.stdout).toMatch(
    /\nstate: injected \(the runner answered with 2xx\)\nresult: 200 text\/plain, 10 bytes\nforty-two\n$/,
  );
  expect(injected).toEqual([{ id, body: "hello" }]);
  expect(await payments.charged()).toEqual([PRICE]);
});

onlyInLongRun(() => {
  test("postern pay prints the receipt, also as JSON: what was paid to whom, in which transaction, for which quote", async () => {
    const json = outcomeOf(await payHere("--max", "5", "--wait=0", "-o", "json"));
    const payment = await payments.gateway.journal.find(String(json?.["call_id"]));
    const receipt = {
      network: payments.devnet.network,
      asset: payments.devnet.token,
      symbol: "USDC",
      amount: String(PRICE),
      payer: payments.payer.address.toLowerCase(),
      pay_to: payments.devnet.seller,
      transaction: json?.["transaction"],
      quote_digest: payment?.terms.quote_digest,
    };
    expect(json?.["receipt"]).toEqual(receipt);

    const { stdout } = await payHere("--max", "5", "--wait=0");
    const [, transaction] = /transaction (0x[0-9a-f]{64})\n/.exec(stdout) ?? [];
    const [, ...lines] = /\nreceipt:\n((?: {2}.+\n){7})/.exec(stdout) ?? [];
    const rows = lines.join("").trim().split("\n");
    expect(rows.map((row) => row.trim().split(/ {2,}/))).toEqual([
      ["network", receipt.network],
      ["token", `USDC ${receipt.asset}`],
      ["amount", "3.2 USDC"],
      ["payer", receipt.payer],
      ["recipient", receipt.pay_to],
      ["transaction", transaction],
      ["quote digest", expect.stringMatching(/^0x[0-9a-f]{64}$/)],
    ]);
  });

  test("postern receipt verify accepts the JSON that postern pay prints", async () => {
    await payments.restartGateway({ x402: { receipt_keys: newReceiptKey().pem } });
    const paid = await payHere("--body", "hello", "--max", "5", "--wait=0", "-o", "json", "--quiet");
    const dir = tempDir();
    const [purchase, keys, body] = ["purchase.json", "jwks.json", "body"].map((name) => join(dir, name));
    writeFileSync(`${purchase}`, paid.stdout);
    writeFileSync(`${keys}`, await (await fetch(urlOf("/.well-known/jwks.json"))).text());
    writeFileSync(`${body}`, "hello");
    const options = ["--issuer", PUBLIC_URL, "--keys", `${keys}`, "--content", `${body}`, "-o", "json"];
    const ran = await runHere(["receipt", "verify", `${purchase}`, ...options]);
    const { call_id, transaction } = outcomeOf(paid) ?? {};
    expect(jsonLines(ran)).toMatchObject([
      { valid: true, type: "payment", claims: { call_id, transaction } },
    ]);
  });

  test("postern pay asks only the paid host for the call's state, even if the answer names another host", async () => {
    await injectAll();
    const ran = await payHere("--max", "5");
    const origin = `http://${payments.gateway.address}`;
    expect(ran.stdout).toMatch(
      new RegExp(`following the call at ${origin}/x402/calls/c_\\w+ instead of ${PUBLIC_URL}/x402/`),
    );
    const json = outcomeOf(await payHere("--max", "5", "-o", "json"));
    expect(json).toMatchObject({
      outcome: "injected",
      status: 202,
      payer: payments.payer.address,
      amount: String(PRICE),
    });
    expect(String(json?.["status_url"])).toMatch(PUBLIC_URL);
    expect(String(json?.["followed_url"])).toMatch(origin);
  });
});

test("postern pay sends the body as it is in the file, with its type, and an identifier of the payment", async () => {
  const file = join(tempDir(), "body");
  writeFileSync(file, Buffer.from([0, 255, 10]));
  const args = ["--body-file", file, "--content-type", "image/x-dot", "--max", "5", "--wait=0", "-o", "json"];
  const json = outcomeOf(await payHere(...args));
  const payment = await payments.gateway.journal.find(String(json?.["call_id"]));
  expect(payment?.call).toMatchObject({ content_type: "image/x-dot", body: "AP8K" });
  expect(payment?.identifier).toMatch(/^[\w-]{16,128}$/);
});

test("postern pay refuses an offer over its cap before it signs anything", async () => {
  for (const max of [[], ["--max", "3.199999"]]) {
    const ran = await payHere(...max);
    expect(ran).toMatchObject({ code: 1, stdout: "" });
    expect(ran.stderr).toMatch(/^the price is 3\.2 USDC, over --max \S+; nothing was signed\n$/);
  }
  expect((await payHere("--max", "3.2", "--wait=0")).code).toBe(0);
  expect((await payments.devnet.control.requests()).verify).toBe(1);
});

test("postern pay sends the very same payment again after an unknown outcome: one charge, one job", async () => {
  await settlingBriefly();
  const injected = await injectAll();
  const { control } = payments.devnet;
  await control.fault({ on: "settle", kind: "drop" });
  const onLine = (line: string): void => {
    if (line.startsWith("no answer yet")) void control.clearFaults();
  };
  const ran = discreet(payments.payer, await payTelling(onLine, "--body", "hello", "--max", "5"));
  expect(ran.stdout).toContain("no answer yet (503 payment.outcome_unknown");
  // A repeated payment gets no result token. This gateway is reached under another name than its own, so the payer signs no sign-in.
  expect(ran.code).toBe(1);
  expect(ran.stderr).toMatch(
    /^you have paid, but its output could not be fetched: sign-in failed: the challenge is for http:\/\/pay\.test\//,
  );
  expect(ran.stdout.match(/^signed: /gm)).toHaveLength(1);
  expect(injected).toHaveLength(1);
  expect(await payments.charged()).toEqual([PRICE]);
});

onlyInLongRun(() => {
  test("postern pay exits with 1 if the outcome stays unknown, and prints the command that repeats the payment", async () => {
    await settlingBriefly();
    await payments.devnet.control.fault({ on: "settle", kind: "status", status: 500 });
    const ran = await payHere("--max", "5", "--timeout", "4");
    expect(ran.code).toBe(1);
    expect(ran.stderr).toContain("Do not pay again");
    expect(ran.stderr).toMatch(/^State of the payment: http:\S+\/x402\/calls\/c_[0-9a-f]{32}$/m);
    await sendAgain(ran, "");
  });

  test("postern pay repeats the same payment at a gateway that cannot take payments now, and is charged once", async () => {
    await payments.devnet.control.fault({ on: "verify", kind: "drop", times: 1 });
    const ran = await payHere("--max", "5", "--wait=0");
    expect(ran.stdout).toMatch(
      /^no answer yet \(503 payment\.unavailable: .*\); sending the same payment again/m,
    );
    expect(ran.code).toBe(0);
    expect(await payments.charged()).toHaveLength(1);
  });

  test("postern pay is not charged, and says so, if the gateway can take no payments until the deadline", async () => {
    await payments.devnet.control.fault({
      on: "verify",
      kind: "refuse",
      reason: "invalid_exact_evm_token_name_mismatch",
    });
    const ran = await payHere("--max", "5", "--timeout", "4");
    expect(ran.code).toBe(1);
    expect(ran.stderr).toContain("refused: 503 payment.unavailable");
    expect(ran.stderr).not.toContain("unknown");
    expect((await payments.devnet.control.requests()).settle).toBe(0);
    expect(await payments.charged()).toEqual([]);
  });
});

test.each(
  sample([
    ["while an answer is waited for", { kind: "slow", replyDelayMs: 30_000 }, /^signed: /m],
    ["between two attempts", { kind: "status", status: 500 }, /^no answer yet/m],
  ] as const),
)("postern pay interrupted %s hands over what it takes to ask again", async (_when, fault, at) => {
  await payments.devnet.control.fault({ on: "settle", ...fault });
  await settlingBriefly();
  const ran = await payInterrupted(["--body", "hello", "--max", "5"], at);
  expect(ran.code).toBe(1);
  expect(ran.stderr).toContain("it is unknown whether the payment settled (interrupted). Do not pay again");
  await sendAgain(ran, "hello");
});

test("postern pay exits with 1 for a job that fails, although it is paid for", async () => {
  await payments.startProducer(async () => {
    throw new Refused("no such job");
  });
  const ran = await payHere("--max", "5");
  expect(ran).toMatchObject({ code: 1 });
  expect(ran.stderr).toMatch(
    /^you have paid, but the job failed \(runner\.refused\)\. Do not pay again: .*\. Its state: http/,
  );
});

onlyInLongRun(() => {
  test("postern pay exits with 1 for a job that is not injected in time, and with 0 once accepted with --wait 0", async () => {
    const accepted = await payHere("--max", "5", "--wait=0", "-o", "json");
    expect(accepted.code).toBe(0);
    expect(outcomeOf(accepted)).toMatchObject({ outcome: "accepted" });
    const late = await payHere("--max", "5", "--wait", "3", "-o", "json");
    expect(late.code).toBe(1);
    expect(outcomeOf(late)).toMatchObject({ outcome: "accepted", state: "queued" });
  });
});

test("postern pay tells a payer without money that the payment is refused, and which party refused it", async () => {
  const payer = await newPayer(payments.devnet, 0n);
  const ran = await payAs({ payer }, "--max", "5");
  expect(ran.code).toBe(1);
  expect(ran.stderr).toMatch(/^refused: 402 payment\.rejected: /);
});

test("postern pay signs no payment for a URL that sells nothing", async () => {
  const ran = await payAs({ path: "/x402/jobs/1/8" });
  expect(ran).toMatchObject({ code: 1, stdout: "" });
  expect(ran.stderr).toContain(": 404 job.not_found: ");
});

const TEXT = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
const declared = { price_wei: "1000000000000000", input_schema: TEXT, input_example: { text: "a" } };

/** Sells two jobs by their names. The second one declares an input schema. */
const sellingByName = (): Promise<void> =>
  payments.restartGateway({
    prices: {
      "6": { price_wei: "1000000000000000", name: "echo" },
      "7": { ...declared, name: "keccak256" },
      "8": "1000000000000000",
    },
  });

async function payByName(name: string, ...args: string[]) {
  const { payer, gateway } = payments;
  const all = ["pay", name, "--gateway", `http://${gateway.address}`, "--max", "5", ...args];
  return discreet(payer, await runHere(all, { POSTERN_PAYER_KEY: payer.privateKey }));
}

onlyInLongRun(() => {
  test("postern pay buys a job by its name at a gateway, in each way to write the gateway's address", async () => {
    await sellingByName();
    const ran = await payByName("keccak256", "--body", '{"text":"hello"}', "--wait=0");
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    const url = `http://${payments.gateway.address}/x402/jobs/1/7`;
    expect(ran.stdout).toMatch(new RegExp(`^job: keccak256 is ${url}\nprice: 3\\.2 USDC`));
    for (const path of ["/", "/x402", "/x402/?a=b#c"]) {
      const more = ["--gateway", `http://${payments.gateway.address}${path}`, "--wait=0", "-o", "json"];
      expect(outcomeOf(await payByName("echo", ...more))).toMatchObject({ outcome: "accepted" });
    }
    expect(await payments.charged()).toHaveLength(4);
  });

  test("postern pay finds a name on any page of the list", async () => {
    const indices = Array.from({ length: 150 }, (_, i) => String(i));
    const prices = indices.map((i) => [i, { price_wei: "1000000000000000", name: `job-${i}` }]);
    await payments.restartGateway({ prices: Object.fromEntries(prices) });
    expect((await payByName("job-149", "--wait=0")).stdout).toContain("/x402/jobs/1/149\n");
  });
});

test.each([
  ["keccak265", /sells no job named keccak265; did you mean keccak256\?$/],
  ["kec", /did you mean keccak256\?$/],
  ["report", /sells no job named report; it sells echo, keccak256$/],
])("postern pay %s, which is no name there, signs nothing and says what was meant", async (name, said) => {
  await sellingByName();
  const ran = await payByName(name, "-o", "json");
  expect(ran.code).toBe(1);
  expect(problemOf(ran)).toMatchObject({
    code: "command.failed",
    detail: expect.stringMatching(said),
  });
  expect(outcomeOf(ran)).toMatchObject({
    outcome: "refused",
    error: expect.stringMatching("no job named"),
  });
  expect(ran.stdout).not.toContain("signed");
});

onlyInLongRun(() => {
  test("postern pay says what to do if a gateway lists no jobs, or jobs without names", async () => {
    expect((await payByName("echo")).stderr).toMatch(/its jobs have no names, so use the URL of the job\n$/);
    const elsewhere = await payByName("echo", "--gateway", payments.devnet.facilitatorUrl);
    expect(elsewhere.stderr).toMatch(/expected a list of jobs from \S+, but it answered 404/);
    const nobody = await payByName("echo", "--gateway", "http://127.0.0.1:1");
    expect(nobody.stderr).toMatch(/cannot get the list of jobs from 127\.0\.0\.1:1: /);
  });
});

test("postern pay signs nothing for a body that does not match the job's schema, by name or by URL, and names the mismatch", async () => {
  await sellingByName();
  for (const body of [[], ["--body", "hello"], ["--body", '{"text":1}']]) {
    for (const ran of [await payByName("keccak256", ...body), await payHere("--max", "5", ...body)]) {
      expect(ran.code).toBe(1);
      expect(ran.stderr).toMatch(
        /^the body does not match the job's input schema: (?:# is empty|# is not JSON in UTF-8|#\/text must be string);/,
      );
      expect(ran.stderr).toMatch(/; nothing was signed\n$/);
      expect(ran.stdout).not.toContain("signed:");
    }
  }
  expect((await payments.devnet.control.requests()).verify).toBe(0);
  expect((await payHere("--max", "5", "--wait=0", "--body", '{"text":"a"}')).code).toBe(0);
});

describe("the output that postern pay prints", () => {
  const done = (body: string | Buffer) => async () => ({ status: 200, contentType: "text/plain", body });

  test("is with --quiet the only thing, byte for byte, and nothing that could control a terminal", async () => {
    const body = Buffer.from([0x1b, 0x5b, 0x32, 0x4a, 0xff]);
    await payments.startProducer(done(body));
    const written: Uint8Array[] = [];
    const writeBytes = (bytes: Uint8Array) => void written.push(bytes);
    const args = ["pay", urlOf(JOB_PATH), "--quiet", "--max", "5"];
    const env = { POSTERN_PAYER_KEY: payments.payer.privateKey };
    const ran = await runHere(args, env, { writeBytes });
    expect([ran.code, ran.stdout, Buffer.concat(written)]).toEqual([0, "", body]);
    const onScreen = await runHere(args, env, { writeBytes, columns: 80 });
    expect(onScreen).toMatchObject({ code: 1, stdout: "" });
    expect(onScreen.stderr).toMatch(
      /^the result: the content is not plain text.*\nfetch the result later: POSTERN_RESULT_TOKEN=rt_\S+ postern result http:\S+\n$/,
    );
    expect(written).toHaveLength(1);
    expect((await payHere("--max", "5")).stdout).toMatch(/, 5 bytes\n1b5b324aff\n$/);
  });

  const LINE = /^fetch the result later: POSTERN_RESULT_TOKEN=(\S+) postern result (\S+)\n?$/;
  /** Fetches the output of a job with the one line that `postern pay --quiet` printed. */
  async function fetchLate(line: string) {
    const [, token, url = ""] = LINE.exec(line) ?? [];
    await payments.startProducer(done("late"));
    expect(await runHere(["result", url, "--quiet"], { POSTERN_RESULT_TOKEN: token })).toMatchObject({
      ...{ code: 0, stdout: "late" },
    });
  }

  onlyInLongRun(() => {
    test("can be fetched by the one line that --quiet --wait=0 prints, which ends without it", async () => {
      const front = await startFront();
      const args = ["pay", `${front.url}${JOB_PATH}`, "--quiet", "--max", "5", "--wait=0"];
      const ran = await runHere(args, { POSTERN_PAYER_KEY: payments.payer.privateKey });
      expect(ran.code).toBe(0);
      await fetchLate(ran.stdout + ran.stderr);
    });

    test("can be fetched by the one line that --quiet prints if it ends without it by Ctrl-C", async () => {
      const front = await startFront();
      const followed = new Promise<void>((resolve) => {
        front.answer = (req, ...more) => {
          if (req.url?.endsWith("/events")) resolve();
          return honestly(req, ...more);
        };
      });
      const env = { POSTERN_PAYER_KEY: payments.payer.privateKey };
      const args = ["pay", `${front.url}${JOB_PATH}`, "--quiet", "--max", "5", "--wait=60"];
      const paying = payments.postern.start(args, { env });
      await followed;
      expect(await paying.kill("SIGINT")).toEqual({ code: null, signal: "SIGINT" });
      await fetchLate(paying.tail());
    });
  });

  test("is in the outcome with -o json, with its token and its URL, which are printed before the wait", async () => {
    await payments.startProducer(done("forty-two"));
    const lines = jsonLines(await payHere("--max", "5", "-o", "json"));
    const steps = new Set(lines.map(({ step }) => step)); // several states may be seen
    expect([...steps]).toEqual([
      ...["price", "signed", "accepted", "receipt", "followed", "state", undefined],
    ]);
    const { call_id: id, transaction, result_token } = lines[2] ?? {};
    const result_url = urlOf(`/x402/calls/${id}/result`);
    expect(lines[2]).toEqual({ step: "accepted", call_id: id, transaction, result_token, result_url });
    expect(result_token).toMatch(/^rt_[\w-]{43}$/);
    expect(lines.at(-1)).toMatchObject({
      ...{ outcome: "injected", status: 202, state: "injected", call_id: id, transaction },
      ...{ status_url: `${PUBLIC_URL}/x402/calls/${id}`, result_url, result_token },
      result: { status: 200, content_type: "text/plain", body: "forty-two" },
    });
    const [quiet, ...more] = jsonLines(await payHere("--max", "5", "-o", "json", "--quiet"));
    expect([quiet?.["outcome"], more]).toEqual(["injected", []]);
  });

  onlyInLongRun(() => {
    test("can be fetched by the command that is printed, if the job has not ended in time", async () => {
      const early = await payHere("--max", "5", "--wait", "1");
      expect(early.code).toBe(1);
      expect(early.stderr).toMatch(
        /^you have paid, but the job did not end in time: it is queued\. Do not pay again\. Its state: http/,
      );
      const [, token, url = ""] =
        /^fetch the result later: POSTERN_RESULT_TOKEN=(\S+) postern result (\S+)$/m.exec(early.stdout) ?? [];
      await payments.startProducer(done("late"));
      const fetched = await runHere(["result", url], { POSTERN_RESULT_TOKEN: token });
      expect(fetched).toMatchObject({
        code: 0,
        stdout: "result: 200 text/plain, 4 bytes\nlate\n",
        stderr: "",
      });
      expect(await payments.charged()).toEqual([PRICE]);
    });

    test("is missing if a long job is late: postern pay exits with 1, and prints how to fetch it later", async () => {
      const idOf = await takeLong();
      const ran = await payHere("--max", "5", "--wait", "4", "-o", "json");
      expect(ran.code).toBe(1);
      expect(outcomeOf(ran)).toMatchObject({
        ...{ outcome: "injected", call_id: idOf(), result_token: expect.stringMatching(/^rt_/) },
        error: expect.stringMatching(
          /^you have paid, but its output could not be fetched: 404 result\.pending: /,
        ),
      });
      await deliver(idOf());
      const { result_url: url, result_token: token } = outcomeOf(ran) as Record<string, string>;
      const fetched = await runHere(["result", String(url), "--quiet"], { POSTERN_RESULT_TOKEN: token });
      expect(fetched).toMatchObject({ code: 0, stdout: "done" });
    });

    test("is fetched with a sign-in if the first answer is lost, because a repeated payment gets no token", async () => {
      const front = await startFront();
      await injectAll();
      let lost = false;
      front.answer = async (req, res, forward) => {
        if (lost || req.headers["payment-signature"] === undefined) return honestly(req, res, forward);
        lost = true;
        await forward();
        return res.destroy();
      };
      const { payer } = payments;
      const args = ["pay", `${front.url}${JOB_PATH}`, "--max", "5", "-o", "json"];
      const ran = await runHere(args, { POSTERN_PAYER_KEY: payer.privateKey });
      expect(ran.code).toBe(0);
      expect(outcomeOf(ran)).toMatchObject({ outcome: "injected", result: { body: "forty-two\n" } });
      expect(outcomeOf(ran)).not.toHaveProperty("result_token");
      expect(await payments.charged()).toEqual([PRICE]);
    });

    test("is requested only from the paid host: a gateway that names another host gets no token sent to that host", async () => {
      const front = await startFront();
      const elsewhere = await startFront();
      await injectAll();
      for (const [status, result] of [
        [`${elsewhere.url}/x402/calls/`, `${elsewhere.url}/x402/calls/`],
        [`http://a.test//${new URL(elsewhere.url).host}/`, `http://a.test//${new URL(elsewhere.url).host}/`],
        ["javascript:alert(1)//", "//"],
      ]) {
        front.answer = async (_req, res, forward) => {
          const answer = await forward();
          if (answer.statusCode !== 202) return relay(res, answer);
          return changed(res, answer, { members: { status_url: `${status}x`, result_url: `${result}y` } });
        };
        const args = ["pay", `${front.url}${JOB_PATH}`, "--max", "5", "--wait", "1", "-o", "json"];
        const ran = await runHere(args, { POSTERN_PAYER_KEY: payments.payer.privateKey });
        expect(new URL(String(outcomeOf(ran)?.["result_url"])).origin).toBe(front.url);
        expect(elsewhere.requests).toEqual([]);
      }
      expect(front.requests.some(({ headers }) => headers.authorization !== undefined)).toBe(true);
    });

    test("is the answer of a seller that runs the job at once", async () => {
      const front = await startFront();
      front.answer = async (_req, res, forward) => {
        const answer = await forward();
        if (answer.statusCode !== 202) return relay(res, answer);
        answer.resume();
        return res.writeHead(200, { "Content-Type": "text/plain" }).end("here");
      };
      const ran = await runHere(["pay", `${front.url}${JOB_PATH}`, "--max", "5"], {
        POSTERN_PAYER_KEY: payments.payer.privateKey,
      });
      expect(ran).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/\nresult: 200 text\/plain, 4 bytes\nhere\n$/),
      });
    });

    test("is empty if the job keeps no results: postern pay exits with 0, and says so in a line", async () => {
      await payments.restartGateway({
        prices: { "7": { price_wei: "1000000000000000", keep_result: false } },
      });
      await injectAll();
      const ran = await payHere("--max", "5");
      expect(ran).toMatchObject({
        code: 0,
        stderr: "",
        stdout: expect.stringMatching(/\nno result: this job keeps no results\n$/),
      });
    });
  });
});

/** Starts a runner that takes a call and delivers its result later. Resolves with a function that returns the id of the call. */
async function takeLong(): Promise<() => string> {
  let taken = "";
  await payments.startProducer(async ({ call }) => {
    taken = call.id;
    return { status: 202 };
  });
  return () => taken;
}

const told = { status: 200, contentType: "text/plain", at: 1, by: "delivery" } as const;
const deliver = (id: string, result: Partial<Delivery> = {}) =>
  deliverResultOn(payments.redis.partition)(id, {
    ...{ ...told, kind: "answer", body: Buffer.from("done") },
    ...result,
  } as Delivery);

/** Reports progress once the runner has the call and a client watches it. */
async function tellProgress(idOf: () => string, fields: object): Promise<void> {
  await eventually("the runner has it", async () => {
    const payment = await payments.gateway.journal.findWithoutCall(idOf());
    return payment?.state === "INJECTED" && payments.gateway.gateway.streaming() > 0;
  });
  const progress = { at: Date.now(), json: JSON.stringify(fields) };
  await tellProgressOn(payments.redis.partition)(idOf(), progress);
}

onlyInLongRun(() => {
  test("postern pay follows a long job to its end: its progress is a bar on a screen", async () => {
    const idOf = await takeLong();
    const { payer } = payments;
    const drawn: string[] = [];
    const redraw = (line: string): void => {
      drawn.push(line);
      if (line !== "") void deliver(idOf());
    };
    const args = ["pay", urlOf(JOB_PATH), "--max", "5"];
    const env = { POSTERN_PAYER_KEY: payer.privateKey };
    const [ran] = await Promise.all([
      runHere(args, env, { drawsProgress: true, redraw }),
      tellProgress(idOf, { step: 2, steps: 4 }),
    ]);
    expect(ran.code).toBe(0);
    expect(drawn).toEqual([`[${"#".repeat(15)}${".".repeat(15)}] 50 % 2/4`, ""]);
    expect(ran.stdout).toMatch(
      /state: injected \(the runner answered with 2xx\)\nresult: 200 text\/plain, 4 bytes\ndone\n$/,
    );
  });
});

test("postern pay -o json prints each state and each progress report on a line, and the outcome last", async () => {
  const idOf = await takeLong();
  const lines: Record<string, unknown>[] = [];
  const onLine = (line: string): void => {
    const json = JSON.parse(line) as Record<string, unknown>;
    lines.push(json);
    if (json["step"] === "progress") void deliver(idOf());
  };
  const [ran] = await Promise.all([
    payTelling(onLine, "--max", "5", "-o", "json"),
    tellProgress(idOf, { percent: 30 }),
  ]);
  expect(ran).toMatchObject({ code: 0 });
  const steps = lines.map(({ step, outcome, ...rest }) => step ?? { outcome, state: rest["state"] });
  expect(steps.slice(-3)).toEqual(["state", "progress", { outcome: "injected", state: "injected" }]);
  expect(lines.at(-2)).toEqual({ step: "progress", progress: { percent: 30 } });
});

onlyInLongRun(() => {
  test("postern pay fails with the reason if the runner of a long job delivers a failure, and prints progress as lines without a screen", async () => {
    const idOf = await takeLong();
    const failure = { kind: "failure", status: 500, contentType: undefined, title: "Out of paint" } as const;
    const lines: string[] = [];
    const onLine = (line: string): void => {
      lines.push(line);
      if (line.startsWith("progress: ")) void deliver(idOf(), failure);
    };
    const [ran] = await Promise.all([payTelling(onLine, "--max", "5"), tellProgress(idOf, { any: "words" })]);
    expect(ran).toMatchObject({ code: 1 });
    expect(lines).toContain('progress: {"any":"words"}');
    expect(lines.at(-1)).toMatch(
      /^you have paid, but the job failed \(500: Out of paint\)\. Its state: http\S+$/,
    );
  });

  test("postern pay asks a gateway without streams for the state, until the runner has the job", async () => {
    await payments.restartGateway({ results: { streams_max: 0 } });
    await injectAll();
    expect(await payHere("--max", "5")).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(
        /state: injected \(the runner answered with 2xx\)\nresult: 200 text\/plain, 10 bytes\nforty-two\n$/,
      ),
    });
  });
});
