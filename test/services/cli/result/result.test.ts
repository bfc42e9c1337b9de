import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Inject } from "../../../../services/producer/producer.ts";
import { Refused } from "../../../../services/producer/retry-policy.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { jsonLines, problemOf } from "../../../fixtures/postern.ts";
import { JOB_PATH } from "../../../fixtures/x402.ts";
import { newPayer } from "../../../support/devnet.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { tempDir } from "../../../support/temp-dir.ts";
import { type Answering, changed, type Front, honestly, relay, useFront } from "../pay/use-front.ts";
import { runHere } from "../run-here.ts";

const payments = usePayments();
const startFront = useFront(payments);

const answering =
  (body: string | Buffer, contentType = "text/plain"): Inject =>
  async () => ({ status: 200, contentType, body });

/** Buys a job whose answer is that of `inject`, and does not wait for its output. */
async function buyJob(
  inject: Inject = answering("forty-two"),
): Promise<{ front: Front; url: string; token: string }> {
  const front = await startFront();
  await payments.startProducer(inject);
  const args = ["pay", `${front.url}${JOB_PATH}`, "--max", "5", "--wait", "0", "-o", "json"];
  const ran = await runHere(args, { POSTERN_PAYER_KEY: payments.payer.privateKey });
  const { result_url, result_token } = jsonLines(ran).at(-1) as Record<string, string>;
  front.requests.length = 0;
  return { front, url: String(result_url), token: String(result_token) };
}

const signedIn = ({ requests }: Front) => requests.filter(({ headers }) => "sign-in-with-x" in headers);

describe("postern result with the token", () => {
  test("prints the output, with the token of a variable or of a file, which has priority", async () => {
    const { url, token } = await buyJob();
    const file = join(tempDir(), "token");
    writeFileSync(file, `${token}\n`);
    const expected = { code: 0, stdout: "result: 200 text/plain, 9 bytes\nforty-two\n", stderr: "" };
    expect(await runHere(["result", url], { POSTERN_RESULT_TOKEN: token })).toEqual(expected);
    const env = { POSTERN_RESULT_TOKEN: "rt_other" };
    expect(await runHere(["result", url, "--token-file", file], env)).toEqual(expected);
    const json = await runHere(["result", url, "-o", "json"], { POSTERN_RESULT_TOKEN: token });
    expect(jsonLines(json)).toEqual([{ url, status: 200, content_type: "text/plain", body: "forty-two" }]);
    const quiet = await runHere(["result", url, "--quiet"], { POSTERN_RESULT_TOKEN: token });
    expect(quiet).toEqual({ code: 0, stdout: "forty-two", stderr: "" });
  });

  test("waits for a job that has not ended, and with --wait 0 asks once and fails", async () => {
    let end = () => {};
    const held = new Promise<void>((resolve) => {
      end = resolve;
    });
    const { front, url, token } = await buyJob(async () => {
      await held;
      return { status: 200, body: "late" };
    });
    const once = await runHere(["result", url, "--wait", "0"], { POSTERN_RESULT_TOKEN: token });
    expect([once.code, once.stdout, front.requests.length]).toEqual([1, "", 1]);
    expect(once.stderr).toMatch(/^404 result\.pending: /);
    const waiting = runHere(["result", url], { POSTERN_RESULT_TOKEN: token });
    await eventually("it has asked", () => front.requests.length === 2);
    end();
    expect(await waiting).toMatchObject({ code: 0, stdout: expect.stringMatching(/late\n$/) });
  });

  test("never sends the token to another server, because it follows no redirect", async () => {
    const { front, url, token } = await buyJob();
    front.answer = (_req, res) => res.writeHead(302, { Location: `${front.url}/elsewhere` }).end();
    const ran = await runHere(["result", url], { POSTERN_RESULT_TOKEN: token });
    expect([ran.code, ran.stdout]).toEqual([1, ""]);
    expect(front.requests.map(({ path }) => path)).toEqual([new URL(url).pathname]);
  });

  test("accepts no token on the command line, and never prints one", async () => {
    const { url, token } = await buyJob();
    const inUrl = await runHere(["result", `${url}?token=${token}`]);
    expect(inUrl).toMatchObject({ code: 2, stdout: "" });
    expect(inUrl.stderr).toMatch(/^error: pass the token in POSTERN_RESULT_TOKEN or --token-file/);
    const file = join(tempDir(), "token");
    writeFileSync(file, `${token}\n${token}`);
    const inFile = await runHere(["result", url, "--token-file", file]);
    expect(inFile.code).toBe(3);
    expect(inFile.stderr + inUrl.stderr).not.toContain(token);
    const none = await runHere(["result", url, "--token-file", join(tempDir(), "none"), "-o", "json"]);
    expect([none.code, problemOf(none)["code"]]).toEqual([3, "start.config_invalid"]);
  });

  const TOKEN_FILES: [what: string, bytes: Buffer, problem: string][] = [
    [
      "in UTF-16, as PowerShell writes it",
      Buffer.from("\ufeffrt_1\r\n", "utf16le"),
      "is UTF-16: save it as UTF-8",
    ],
    ["in Latin-1", Buffer.from("rt_\xe9", "latin1"), "is not UTF-8: save it as UTF-8"],
    ["that does not end", Buffer.alloc(16 * 1024 ** 2 + 1, "a"), "is longer than 16777216 bytes"],
  ];

  test.each(sample(TOKEN_FILES))(
    "refuses a token file %s, and says what to do",
    async (_, bytes, problem) => {
      const file = join(tempDir(), "token");
      writeFileSync(file, bytes);
      const ran = await runHere(["result", "http://127.0.0.1:1/x402/calls/c/result", "--token-file", file]);
      expect([ran.code, ran.stdout]).toEqual([3, ""]);
      expect(ran.stderr).toContain(`${file} ${problem}`);
    },
  );

  test("exits with 1 for the token of another call, and for a failed job", async () => {
    const { url, token } = await buyJob(async () => {
      throw new Refused("no such job", { problem: { title: "Out of paper" } });
    });
    const other = await runHere(["result", url], { POSTERN_RESULT_TOKEN: `rt_${"A".repeat(43)}` });
    expect([other.code, other.stdout]).toEqual([1, ""]);
    expect(other.stderr).toMatch(/^402 result\.sign_in_required: /);
    const failed = await runHere(["result", url], { POSTERN_RESULT_TOKEN: token });
    expect([failed.code, failed.stdout]).toEqual([1, ""]);
    expect(failed.stderr).toMatch(/^502 result\.call_failed: Out of paper/);
  });

  onlyInLongRun(() => {
    test("aborts an answer without an end", async () => {
      const { front, url, token } = await buyJob();
      const MIB = Buffer.alloc(1024 ** 2);
      front.answer = (_req, res) => {
        res.writeHead(200, { "Content-Type": "text/plain" });
        const more = () => {
          while (res.write(MIB));
        };
        res.on("drain", more);
        more();
      };
      const ran = await runHere(["result", url], { POSTERN_RESULT_TOKEN: token });
      expect([ran.code, ran.stdout]).toEqual([1, ""]);
      expect(ran.stderr).toMatch(/the answer is longer than 64 MiB\n$/);
    });

    test("removes escape sequences from the output, its type and refusals before they reach a terminal", async () => {
      const CLEAR = "\x1b[2J\x9b2J";
      const { front, url, token } = await buyJob(answering(CLEAR));
      const written: Uint8Array[] = [];
      const screen = { columns: 80, writeBytes: (bytes: Uint8Array) => void written.push(bytes) };
      const env = { POSTERN_RESULT_TOKEN: token };
      const runs = [
        await runHere(["result", url], env, screen),
        await runHere(["result", url, "--quiet"], env, screen),
      ];
      expect(runs.map(({ code }) => code)).toEqual([0, 1]);
      expect(runs[0]?.stdout).toContain(Buffer.from(CLEAR).toString("hex"));
      front.answer = (_req, res) =>
        res.writeHead(410, { "Content-Type": "x/y" }).end(JSON.stringify({ code: CLEAR, detail: CLEAR }));
      runs.push(
        await runHere(["result", url], env, screen),
        await runHere(["result", url, "-o", "json"], env, screen),
      );
      front.answer = (_req, res) => {
        res.writeHead(200, { "Content-Type": "text/plain; a=\x9b2J" }).end("hi");
      };
      runs.push(await runHere(["result", url], env, screen));
      for (const { stdout, stderr } of runs) expect(stdout + stderr).not.toMatch(/[^\P{Cc}\n]/u);
      expect(written).toEqual([]);
    });
  });
});

const ID = `c_${"0".repeat(32)}`;

describe("postern result with something other than the URL of a result", () => {
  const OTHERS: [what: string, given: string, example: string][] = [
    ["a call id", ID, `http://127.0.0.1:8402/x402/calls/${ID}/result`],
    ["a path", `/webhooks/calls/${ID}/result`, `http://127.0.0.1:9090/webhooks/calls/${ID}/result`],
    [
      "the URL of the call's state",
      `http://x/x402/calls/${ID}`,
      `http://127.0.0.1:8402/x402/calls/${ID}/result`,
    ],
    ["a word", "hello", "http://127.0.0.1:8402/x402/calls/c_…/result"],
  ];

  test.each(sample(OTHERS))(
    "says what to pass instead of %s, and sends nothing",
    async (_, given, example) => {
      const ran = await runHere(["result", given], { POSTERN_RESULT_TOKEN: "rt_1" });
      expect(ran).toMatchObject({ code: 2, stdout: "" });
      expect(ran.stderr).toContain(
        `it must be the result_url of a call's 202 answer; for example ${example}\n`,
      );
    },
  );

  onlyInLongRun(() => {
    test("says what to check if the gateway does not know the call", async () => {
      const { url, token } = await buyJob();
      const unknown = url.replace(/c_[0-9a-f]{32}/, ID);
      const ran = await runHere(["result", unknown], { POSTERN_RESULT_TOKEN: token });
      expect([ran.code, ran.stdout]).toEqual([1, ""]);
      expect(ran.stderr).toMatch(
        /^402 result\.sign_in_required: .*\nset POSTERN_RESULT_TOKEN to the result_token /,
      );
    });

    test("has a help that says where the URL and the token come from", async () => {
      const { stdout } = await runHere(["result", "--help"]);
      expect(stdout).toContain("result_url");
      expect(stdout).toContain("result_token");
      expect(stdout).toMatch(/http:\/\/127\.0\.0\.1:8402\/x402\/calls\/<call id>\/result/);
    });
  });
});

describe("postern result without a token", () => {
  const env = () => ({ POSTERN_PAYER_KEY: payments.payer.privateKey });

  test("signs in as the payer, with a new signature for each try, and with no other key", async () => {
    let end = () => {};
    const held = new Promise<void>((resolve) => {
      end = resolve;
    });
    const { front, url } = await buyJob(async () => {
      await held;
      return { status: 200, body: "mine" };
    });
    const running = runHere(["result", url, "--quiet"], env());
    await eventually("it has signed in", () => signedIn(front).length === 1);
    end();
    expect(await running).toEqual({ code: 0, stdout: "mine", stderr: "" });
    const signIns = signedIn(front).map(({ headers }) => headers["sign-in-with-x"]);
    expect(new Set(signIns).size).toBe(signIns.length);
    const stranger = await newPayer(payments.devnet);
    const refused = await runHere(["result", url], { POSTERN_PAYER_KEY: stranger.privateKey });
    expect([refused.code, refused.stdout]).toEqual([1, ""]);
    expect(refused.stderr).toMatch(
      /^402 result\.sign_in_required: address: must be that of the call's payer/,
    );
  });

  onlyInLongRun(() => {
    test("uses the key if the token is refused", async () => {
      const { url } = await buyJob();
      const ran = await runHere(["result", url, "--quiet"], { ...env(), POSTERN_RESULT_TOKEN: "rt_old" });
      expect(ran).toEqual({ code: 0, stdout: "forty-two", stderr: "" });
    });
  });

  test("fails without a key, and says that one is needed", async () => {
    const ran = await runHere(["result", "http://127.0.0.1:1/x402/calls/c/result"]);
    expect(ran.code).toBe(3);
    expect(ran.stderr).toMatch(
      /^a result token \(result_token of the call's 202\) or the key of the payer is required: set POSTERN_RESULT_TOKEN or pass --token-file, or set the key\. POSTERN_PAYER_KEY is not set; it must be /,
    );
  });

  type Info = Record<string, unknown>;
  const FORGED: [what: string, change: (extension: { info: Info; supportedChains: Info[] }) => unknown][] = [
    ["another domain", ({ info }) => ({ info: { ...info, domain: "bank.example" } })],
    ["a domain that differs by its port", ({ info }) => ({ info: { ...info, domain: "127.0.0.1" } })],
    ["another host's URI", ({ info }) => ({ info: { ...info, uri: "http://bank.example/" } })],
    [
      "another call's URI",
      ({ info }) => ({ info: { ...info, uri: String(info["uri"]).replace("/c_", "/c_0") } }),
    ],
    [
      "another scheme's URI",
      ({ info }) => ({ info: { ...info, uri: String(info["uri"]).replace("http", "https") } }),
    ],
    [
      "a URI whose backslash others read as another host's",
      ({ info }) => ({ info: { ...info, uri: String(info["uri"]).replace("/x402", "\\x402") } }),
    ],
    [
      "lines of its own",
      ({ info }) => ({ info: { ...info, statement: "Hello\n\nURI: http://bank.example" } }),
    ],
    ["a nonce that is text", ({ info }) => ({ info: { ...info, nonce: "12345678\nIssued At: x" } })],
    ["resources", ({ info }) => ({ info: { ...info, resources: ["http://bank.example"] } })],
    ["a time that is over", ({ info }) => ({ info: { ...info, expirationTime: "2020-01-01T00:00:00Z" } })],
    ["no EVM chain", () => ({ supportedChains: [{ chainId: "solana:x", type: "ed25519" }] })],
    ["another kind of signature", () => ({ supportedChains: [{ chainId: "eip155:1", type: "eip1271" }] })],
  ];

  const changing =
    (change: (typeof FORGED)[number][1]): Answering =>
    async (_req, res, forward) => {
      const answer = await forward();
      if (answer.statusCode !== 402) return relay(res, answer);
      const header = Buffer.from(String(answer.headers["payment-required"]), "base64").toString();
      const required = JSON.parse(header);
      const asked = required.extensions["sign-in-with-x"];
      Object.assign(asked, change(asked));
      const forged = Buffer.from(JSON.stringify(required)).toString("base64");
      return changed(res, answer, { headers: { "payment-required": forged } });
    };

  test("signs no challenge for another server, time or kind, and none that asks for more than a sign-in", async () => {
    const { front, url } = await buyJob();
    for (const [what, change] of sample(FORGED, 5)) {
      front.answer = changing(change);
      const ran = await runHere(["result", url], env());
      expect([what, ran.code, ran.stdout]).toEqual([what, 1, ""]);
      expect([what, ran.stderr]).toEqual([what, expect.stringMatching(/^sign-in failed: /)]);
    }
    front.answer = honestly;
    const byOtherName = await runHere(["result", url.replace("127.0.0.1", "localhost")], env());
    expect(byOtherName.stderr).toMatch(/^sign-in failed: the challenge is for http:\/\/127\.0\.0\.1:/);
    expect(signedIn(front)).toEqual([]);
    front.answer = changing(() => ({}));
    expect((await runHere(["result", url], env())).code).toBe(0);
  });

  test("pays nothing, even if the 402 asks for a payment", async () => {
    const { front, url } = await buyJob();
    front.answer = (req, res, forward) => {
      req.url = JOB_PATH;
      req.method = "POST";
      return forward().then((answer) => {
        res.writeHead(402, answer.headers);
        answer.pipe(res);
      });
    };
    const ran = await runHere(["result", url], env());
    expect([ran.code, ran.stderr]).toEqual([1, expect.stringMatching(/^sign-in failed: /)]);
    expect(await payments.charged()).toHaveLength(1);
    expect(front.requests).toHaveLength(1);
  });
});
