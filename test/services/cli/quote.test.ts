import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { keccak256Hex } from "../../../shared/chain/encoding.ts";
import { recoverAddress } from "../../../shared/chain/signatures.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { decodeQuoteHeader, jobQuoteDigest } from "../../../shared/pricing/job-quote.ts";
import { OPERATOR, SEPARATOR, usePricing } from "../../fixtures/pricing.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { runHere } from "./run-here.ts";

const REQUESTER = "0x000000000000000000000000000000000000bEEF";

const pricing = usePricing();
let args: string[];
beforeAll(async () => {
  const jobs = [{ serviceId: 42, jobIndex: 3, priceWei: 1000n }];
  const { http } = await pricing.engine({ clock: systemClock, jobs });
  args = [`http://${http.address}`, "--job", "42/3", "--requester", REQUESTER, "--difficulty", "8"];
});

const quote = (...given: readonly string[]) => runHere(["quote", ...given]);

test("`postern quote` does the proof of work and prints the quote, with the header for a payment gateway", async () => {
  const shown = await quote(...args, "--body", "hi");
  expect([shown.code, shown.stderr]).toEqual([0, ""]);
  expect(shown.stdout).toContain("price: 1000 wei, until ");
  const header = /^X-PLATFORM-QUOTE: (\S+)$/m.exec(shown.stdout)?.[1] ?? "";
  const decoded = decodeQuoteHeader(header);
  if (!decoded.ok) throw new Error(decoded.problem);
  const { quote: signed, signature } = decoded.signed;
  expect(signed).toMatchObject({
    serviceId: 42n,
    jobIndex: 3,
    priceWei: 1000n,
    requester: REQUESTER.toLowerCase(),
  });
  expect(signed.inputsHash).toBe(keccak256Hex(Buffer.from("hi")));
  expect(recoverAddress(jobQuoteDigest(SEPARATOR, signed), signature)).toBe(OPERATOR);
});

test("`postern quote -o json` prints the engine's answer, for inputs from a file", async () => {
  const file = join(tempDir(), "body");
  writeFileSync(file, Buffer.of(0, 255));
  const json = await quote(...args, "--body-file", file, "-o", "json");
  expect(JSON.parse(json.stdout)).toMatchObject({
    quote_details: { inputs_hash: keccak256Hex(Buffer.of(0, 255)) },
    operator_id: OPERATOR,
  });
});

test("two runs of `postern quote` in the same second with different inputs have different proofs of work", async () => {
  const both = await Promise.all(["a", "b"].map((body) => quote(...args, "--body", body)));
  expect(both.map(({ code, stderr }) => [code, stderr])).toEqual([
    [0, ""],
    [0, ""],
  ]);
});

test("`postern quote` exits with 1 and says why if the engine gives no quote", async () => {
  const unsold = await quote(...args.map((word) => (word === "42/3" ? "42/4" : word)));
  expect([unsold.code, unsold.stderr]).toEqual([
    1,
    expect.stringContaining("No pricing configured for service 42 job index 4"),
  ]);
});

test("`postern quote` exits with 1 if there is no engine", async () => {
  const options = ["--requester", REQUESTER, "--difficulty", "0"];
  expect(await quote("http://127.0.0.1:1", "--job", "42/3", ...options)).toMatchObject({
    code: 1,
    stdout: "",
  });
});

test.each([
  ["without a requester", ["http://127.0.0.1:1", "--job", "42/3"]],
  ["for a requester that is no address", ["http://127.0.0.1:1", "--job", "42/3", "--requester", "0x12"]],
  ["of an engine that is not on HTTP", ["ftp://127.0.0.1", "--job", "42/3", "--requester", REQUESTER]],
  ["for a job that is no number", ["http://127.0.0.1:1", "--job", "42/x", "--requester", REQUESTER]],
  [
    "with a difficulty that few can bear",
    ["http://127.0.0.1:1", "--job", "42/3", "--requester", REQUESTER, "--difficulty", "25"],
  ],
  [
    "with two bodies",
    ["http://127.0.0.1:1", "--job", "42/3", "--requester", REQUESTER, "--body", "a", "--body-file", "b"],
  ],
])("`postern quote` %s exits with 2", async (_, wrong) => {
  expect(await quote(...wrong)).toMatchObject({ code: 2, stdout: "" });
});
