import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { setImmediate } from "node:timers/promises";
import { inspect } from "node:util";
import { privateKeyToAccount } from "viem/accounts";
import { decodeFunctionData, parseAbi } from "viem/utils";
import { describe, expect, test } from "vitest";
import {
  CallerPolicy,
  type CallerRequest,
  createIsPermittedCaller,
  createPolicies,
  type EthCall,
  type IsPermittedCaller,
  type JobPolicy,
} from "../../../../services/x402-gateway/policy/caller-policy.ts";
import { createEthCall } from "../../../../shared/chain/rpc.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { AppError } from "../../../../shared/platform/errors/app-error.ts";

const KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const CALLER = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const PAYER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const CONTRACT = "0x1111111111111111111111111111111111111111";
/** Published example: body `hello`, service 1, job 7, nonce `nonce-123`, expiry 4102444800. */
const KNOWN_SIGNATURE =
  "0x814d0eea80800217fd84c9cb9daa1b72c17f30745366958bd0e2798190875c145a27d3ce7ab1dfd8937282633c978a81ba053734cc2869d016af6457b3b5c5e81b";
const KNOWN_EXPIRY = 4_102_444_800;
const NOW = 1_790_000_000_000;
const HERE = "https://pay.example.com";
const RPC = new Secret("https://node.example.com/canary-key");

const restricted = { mode: "restricted_paid", contract: CONTRACT, rpcUrl: RPC } as const;
const delegated = {
  ...restricted,
  authMode: "delegated_caller_signature",
  expirySecsMax: 10_000_000_000,
  boundProof: false,
} as const satisfies JobPolicy;
const byPayer: JobPolicy = { ...restricted, authMode: "payer_is_caller" };

type Headers = Record<string, string | undefined>;
const KNOWN: Headers = {
  "X-PLATFORM-CALLER": CALLER,
  "X-PLATFORM-CALLER-NONCE": "nonce-123",
  "X-PLATFORM-CALLER-SIG": KNOWN_SIGNATURE,
  "X-PLATFORM-CALLER-EXPIRY": String(KNOWN_EXPIRY),
};

const withHeaders = (...headers: Headers[]): IncomingMessage => {
  const rawHeaders = headers
    .flatMap((some) => Object.entries(some))
    .flatMap(([name, value]) => (value === undefined ? [] : [name, value]));
  return { rawHeaders } as unknown as IncomingMessage;
};

type Asked = Partial<Omit<CallerRequest, "job">> & {
  policy?: JobPolicy;
  serviceId?: number;
  jobIndex?: number;
  prefix?: string;
  publicUrl?: string;
  isPermittedCaller?: IsPermittedCaller;
};

function authorize({ policy = delegated, serviceId = 1, jobIndex = 7, ...asked }: Asked = {}) {
  const callerPolicy = new CallerPolicy({
    metadataPrefix: asked.prefix ?? "X-PLATFORM",
    x402: { public_url: asked.publicUrl ?? HERE },
    clock: () => NOW,
    isPermittedCaller: asked.isPermittedCaller ?? (async () => true),
  });
  return callerPolicy.authorize({
    job: { policy, serviceId, jobIndex },
    req: asked.req ?? withHeaders(KNOWN),
    body: asked.body ?? Buffer.from("hello"),
    payer: asked.payer ?? PAYER,
    clientKey: "127.0.0.1",
  });
}

/** Returns the refusal's code and the detail that the caller sees. */
async function refusal(asked: Asked): Promise<{ code: string; detail: string }> {
  const error = await authorize(asked).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof AppError)) throw new Error("was not refused");
  return { code: error.code, detail: error.publicDetail };
}

const code = async (asked: Asked): Promise<string> => (await refusal(asked)).code;

/** Returns headers with a new signature. */
async function signed({
  nonce = "nonce-123",
  expiry = String(KNOWN_EXPIRY),
  key = KEY,
  /** Text after `x402-authorize`: empty, or the gateway that the proof is bound to. */
  at = "",
} = {}): Promise<Headers> {
  const account = privateKeyToAccount(key as `0x${string}`);
  const bodyHash = "1c8aff950685c2ed4bc3174f3472287b56d9517b9c948127319a09a7a36deac8"; // keccak256("hello")
  const message = `x402-authorize${at}:1:7:${bodyHash}:${nonce}:${expiry}`;
  return {
    "X-PLATFORM-CALLER": account.address,
    "X-PLATFORM-CALLER-NONCE": nonce,
    "X-PLATFORM-CALLER-SIG": await account.signMessage({ message }),
    "X-PLATFORM-CALLER-EXPIRY": expiry,
  };
}

describe("a delegated caller", () => {
  test("the known example of a delegated caller authenticates that caller, and its nonce is remembered until after the expiry", async () => {
    const caller = await authorize();
    expect(caller?.address).toBe(CALLER.toLowerCase());
    expect(caller?.nonce?.hash).toMatch(/^[0-9a-f]{64}$/);
    expect(caller?.nonce?.keptUntil).toBeGreaterThan(KNOWN_EXPIRY * 1000);
  });

  test("a delegated caller is the signer of the proof, not the payer, in any letter case of the address", async () => {
    for (const address of [CALLER, CALLER.toLowerCase(), `0x${CALLER.slice(2).toUpperCase()}`]) {
      const req = withHeaders({ ...KNOWN, "X-PLATFORM-CALLER": address });
      expect(await authorize({ req })).toMatchObject({ address: CALLER.toLowerCase() });
    }
  });

  test("a delegated caller is read from the headers of the configured prefix, in any letter case", async () => {
    const renamed = Object.fromEntries(
      Object.entries(KNOWN).map(([name, value]) => [name.replace("X-PLATFORM", "x-brand"), value]),
    );
    expect(await authorize({ req: withHeaders(renamed), prefix: "X-BRAND" })).toBeDefined();
    expect(await code({ req: withHeaders(renamed) })).toBe("caller.missing");
  });

  test.each([
    ["another body", { body: Buffer.from("hello ") }],
    ["an empty body", { body: Buffer.alloc(0) }],
    ["another service", { serviceId: 2 }],
    ["another job", { jobIndex: 8 }],
  ] as [string, Asked][])("a caller's proof is refused for %s", async (_what, asked) => {
    expect(await code(asked)).toBe("caller.proof_invalid");
  });

  const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
  const highS = (ORDER - BigInt(`0x${KNOWN_SIGNATURE.slice(66, 130)}`)).toString(16).padStart(64, "0");
  test.each([
    ["another caller", { "X-PLATFORM-CALLER": PAYER }],
    ["no address", { "X-PLATFORM-CALLER": "0x12" }],
    ["another nonce", { "X-PLATFORM-CALLER-NONCE": "nonce-124" }],
    ["a nonce in another case", { "X-PLATFORM-CALLER-NONCE": "Nonce-123" }],
    ["an empty nonce", { "X-PLATFORM-CALLER-NONCE": "" }],
    ["another expiry", { "X-PLATFORM-CALLER-EXPIRY": String(KNOWN_EXPIRY - 1) }],
    ["a padded expiry", { "X-PLATFORM-CALLER-EXPIRY": `0${KNOWN_EXPIRY}` }],
    ["a fractional expiry", { "X-PLATFORM-CALLER-EXPIRY": `${KNOWN_EXPIRY}.0` }],
    ["an expiry with an exponent", { "X-PLATFORM-CALLER-EXPIRY": "4.1024448e9" }],
    ["an expiry above the largest number", { "X-PLATFORM-CALLER-EXPIRY": "9".repeat(400) }],
    [
      "a signature with one digit changed",
      { "X-PLATFORM-CALLER-SIG": KNOWN_SIGNATURE.replace("814d", "814e") },
    ],
    ["a signature with the other v", { "X-PLATFORM-CALLER-SIG": KNOWN_SIGNATURE.replace(/1b$/, "1c") }],
    ["a signature with v 0", { "X-PLATFORM-CALLER-SIG": KNOWN_SIGNATURE.replace(/1b$/, "00") }],
    [
      "the same signature with a high s",
      { "X-PLATFORM-CALLER-SIG": `${KNOWN_SIGNATURE.slice(0, 66)}${highS}1c` },
    ],
    ["a signature of 64 bytes", { "X-PLATFORM-CALLER-SIG": KNOWN_SIGNATURE.slice(0, -2) }],
    ["a signature without 0x", { "X-PLATFORM-CALLER-SIG": KNOWN_SIGNATURE.slice(2) }],
    ["a signature with trailing bytes", { "X-PLATFORM-CALLER-SIG": `${KNOWN_SIGNATURE}00` }],
  ] as [string, Headers][])("a caller's proof is refused with %s", async (_what, changed) => {
    expect(await code({ req: withHeaders({ ...KNOWN, ...changed }) })).toBe("caller.proof_invalid");
  });

  test.each(Object.keys(KNOWN))(
    "a caller's proof without %s is refused, and the refusal names the header",
    async (name) => {
      const { code, detail } = await refusal({ req: withHeaders({ ...KNOWN, [name]: undefined }) });
      expect([code, detail]).toEqual(["caller.missing", `the header ${name} is missing`]);
    },
  );

  test.each(Object.keys(KNOWN))(
    "a caller's proof is refused if %s is sent twice, even with the same value",
    async (name) => {
      const { code, detail } = await refusal({
        req: withHeaders(KNOWN, { [name.toLowerCase()]: KNOWN[name] }),
      });
      expect([code, detail]).toEqual(["caller.proof_invalid", `${name} was sent more than once`]);
    },
  );

  test("a caller's proof may use any nonce of 1 to 128 visible characters, and no other", async () => {
    for (const nonce of ["a", "~".repeat(128), "{a}:b/c:5"])
      expect(await authorize({ req: withHeaders(await signed({ nonce })) })).toBeDefined();
    for (const nonce of ["a".repeat(129), "a b", "nöncé"])
      expect(await code({ req: withHeaders(await signed({ nonce })) })).toBe("caller.proof_invalid");
  });

  test("a caller's proof has a separate nonce hash for each caller, job and nonce, and equal proofs have equal hashes", async () => {
    const other = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";
    const requests = [{}, {}, { expiry: String(KNOWN_EXPIRY - 5) }, { nonce: "nonce-124" }, { key: other }];
    const hashes = await Promise.all(
      requests.map(async (one) => (await authorize({ req: withHeaders(await signed(one)) }))?.nonce?.hash),
    );
    expect(hashes.map((hash) => hashes.indexOf(hash))).toEqual([0, 0, 0, 3, 4]);
  });
});

describe("a proof that names its gateway", () => {
  const bound = { ...delegated, boundProof: true };
  const THERE = "https://pay.example.org";
  const ask = async (at: string, more: Asked = {}) => ({ ...more, req: withHeaders(await signed({ at })) });

  test("a proof that names its gateway is accepted only there, by jobs that require such a proof and by jobs that do not", async () => {
    for (const policy of [bound, delegated]) {
      const here = await ask(`@${HERE}`, { policy });
      expect((await authorize(here))?.address).toBe(CALLER.toLowerCase());
      expect(await code({ ...here, publicUrl: THERE })).toBe("caller.proof_invalid");
    }
  });

  test("a job that requires a bound proof refuses a proof that names no gateway or another one, and the refusal says what is required", async () => {
    for (const at of ["", `@${THERE}`, "@", `@${HERE}/`, `:${HERE}`])
      expect(await refusal(await ask(at, { policy: bound }))).toEqual({
        code: "caller.proof_invalid",
        detail: expect.stringContaining(`at ${HERE}, as this job requires`),
      });
  });
});

describe("the expiry of a caller's proof", () => {
  const nowSecs = NOW / 1000;
  const hour: JobPolicy = { ...delegated, expirySecsMax: 3600 };
  const at = async (expiry: number) => ({
    policy: hour,
    req: withHeaders(await signed({ expiry: String(expiry) })),
  });

  test("a caller's proof is refused once its expiry has passed", async () => {
    expect(await authorize(await at(nowSecs + 1))).toBeDefined();
    for (const expiry of [nowSecs, nowSecs - 1, 0])
      expect(await refusal(await at(expiry))).toEqual({
        code: "caller.proof_invalid",
        detail: "the caller's proof has expired",
      });
  });

  test("the expiry of a caller's proof is limited by the policy, and the refusal says the limit", async () => {
    expect(await authorize(await at(nowSecs + 3600))).toBeDefined();
    expect(await refusal(await at(nowSecs + 3601))).toEqual({
      code: "caller.proof_invalid",
      detail: "the caller's proof expires more than 3600 seconds ahead",
    });
  });
});

describe("other policies", () => {
  test("the policy public_paid needs no caller and calls no contract", async () => {
    const isPermittedCaller = () => Promise.reject(new Error("was asked"));
    const policy: JobPolicy = { mode: "public_paid" };
    expect(await authorize({ policy, req: withHeaders(), isPermittedCaller })).toBeUndefined();
  });

  test("the policy disabled refuses every caller", async () => {
    expect(await code({ policy: { mode: "disabled" } })).toBe("job.disabled");
  });

  test("the policy payer_is_caller uses the payer as the caller and ignores all caller headers", async () => {
    expect(await authorize({ policy: byPayer })).toEqual({ address: PAYER.toLowerCase() });
  });

  test("a caller whom the contract does not permit is refused, as a payer and as a signer", async () => {
    for (const policy of [delegated, byPayer])
      expect(await code({ policy, isPermittedCaller: async () => false })).toBe("caller.not_permitted");
  });

  test("the contract is called with the service and the authenticated caller", async () => {
    const asked: unknown[] = [];
    const isPermittedCaller: IsPermittedCaller = async ({ serviceId, caller }) => {
      asked.push([serviceId, caller]);
      return true;
    };
    await authorize({ isPermittedCaller });
    await authorize({ isPermittedCaller, policy: byPayer });
    expect(asked).toEqual([
      [1, CALLER.toLowerCase()],
      [1, PAYER.toLowerCase()],
    ]);
  });

  test("the policy of a job is its own entry, or the default", () => {
    const of = createPolicies({
      default_invocation_mode: "disabled",
      job_policies: [
        { service_id: 1, job_index: 1, invocation_mode: "public_paid" },
        {
          service_id: 1,
          job_index: 7,
          invocation_mode: "restricted_paid",
          auth_mode: "delegated_caller_signature",
          rpc_url: RPC,
          contract: CONTRACT,
          caller_expiry_secs_max: 9,
          bound_caller_proof: false,
        },
      ],
    });
    expect(of({ serviceId: 1, jobIndex: 1 })).toEqual({ mode: "public_paid" });
    expect(of({ serviceId: 1, jobIndex: 7 })).toEqual({ ...delegated, expirySecsMax: 9 });
    expect(of({ serviceId: 11, jobIndex: 1 })).toEqual({ mode: "disabled" });
  });
});

const word = (value: number): `0x${string}` => `0x${value.toString(16).padStart(64, "0")}`;

describe("isPermittedCaller", () => {
  type Ask = (call: { to: string; data: `0x${string}` }) => Promise<`0x${string}`>;

  function fixture(ask: Ask, options: { callersMax?: number } = {}) {
    const calls: { to: string; data: `0x${string}` }[] = [];
    const nodes: string[] = [];
    let now = NOW;
    const ethCall: EthCall = (call) => {
      calls.push(call);
      return ask(call);
    };
    const ethCallAt = (rpcUrl: Secret) => {
      nodes.push(rpcUrl.reveal());
      return ethCall;
    };
    const isPermitted = createIsPermittedCaller({ ethCallAt, clock: () => now, ...options });
    const policy = { contract: CONTRACT, rpcUrl: RPC } as const;
    const question = { policy, serviceId: 1, caller: CALLER, clientKey: "192.0.2.1" } as const;
    return {
      calls,
      nodes,
      pass: (ms: number) => {
        now += ms;
      },
      ask: (changed: Partial<{ serviceId: number; caller: `0x${string}`; clientKey: string }> = {}) =>
        isPermitted({ ...question, ...changed }),
    };
  }

  const failureOf = async (work: Promise<boolean>): Promise<AppError> =>
    work.then(
      () => Promise.reject(new Error("was answered")),
      (error: AppError) => error,
    );

  test("isPermittedCaller is called on the policy's contract, encoded as in the ABI", async () => {
    const { ask, calls } = fixture(async () => word(1));
    await ask({ serviceId: Number.MAX_SAFE_INTEGER });
    const abi = parseAbi([
      "function isPermittedCaller(uint64 serviceId, address caller) view returns (bool)",
    ]);
    expect(calls[0]?.to).toBe(CONTRACT);
    expect(decodeFunctionData({ abi, data: calls[0]!.data }).args).toEqual([
      BigInt(Number.MAX_SAFE_INTEGER),
      CALLER,
    ]);
    expect(calls[0]!.data).toHaveLength(2 + 8 + 128);
  });

  test("a permission is cached for half a minute and read again after it, with the same client", async () => {
    const { ask, calls, nodes, pass } = fixture(async () => word(1));
    expect([await ask(), await ask()]).toEqual([true, true]);
    pass(29_999);
    await ask();
    expect(calls).toHaveLength(1);
    pass(1);
    await ask();
    expect(calls).toHaveLength(2);
    expect(nodes).toEqual([RPC.reveal()]);
  });

  test("a permission that was just read is served from the cache, and refused strangers evict no permitted caller", async () => {
    const permitted = new Set([CALLER.slice(2).toLowerCase()]);
    const isIn = ({ data }: { data: string }) => permitted.has(data.slice(-40));
    const { ask, calls } = fixture(async (call) => word(isIn(call) ? 1 : 0), { callersMax: 2 });
    await ask();
    for (let i = 0; i < 5; i++) await ask({ caller: `0x${String(i).repeat(40)}` });
    expect(await ask()).toBe(true);
    expect(calls).toHaveLength(6);
    expect(await ask({ caller: PAYER })).toBe(false);
    permitted.add(PAYER.slice(2).toLowerCase());
    expect(await ask({ caller: PAYER })).toBe(true);
  });

  test("at most 64 permissions are read at a time: others wait, at most a limited number for each address, and cached callers need no read", async () => {
    const held: (() => void)[] = [];
    let holds = false;
    const { ask, calls } = fixture(
      () => new Promise((resolve) => (holds ? held.push(() => resolve(word(1))) : resolve(word(1)))),
    );
    await ask({ serviceId: 1000 });
    holds = true;
    const asked = Array.from({ length: 400 }, (_, serviceId) => ask({ serviceId }));
    asked.push(ask({ serviceId: 400, clientKey: "192.0.2.2" }));
    const results = Promise.allSettled(asked);
    expect(await ask({ serviceId: 1000 })).toBe(true);
    await setImmediate();
    expect(calls).toHaveLength(1 + 64);
    for (let answered = 0; answered < 321; answered++) {
      held[answered]?.();
      await setImmediate();
      expect(calls.length).toBeLessThanOrEqual(1 + 64 + answered + 1);
    }
    const refused = (await results).flatMap((each) => (each.status === "rejected" ? [each.reason] : []));
    expect(refused).toHaveLength(400 - 64 - 256);
    expect(refused[0]).toMatchObject({ code: "request.rate_limited", retryAfterMs: expect.any(Number) });
    expect((await Promise.allSettled(asked)).at(-1)).toMatchObject({ status: "fulfilled", value: true });
    holds = false;
    expect(await ask({ serviceId: 399 })).toBe(true);
  });

  test("the permissions of different callers and services are cached separately", async () => {
    const { ask } = fixture(async ({ data }) => word(data.endsWith(PAYER.slice(2).toLowerCase()) ? 1 : 0));
    expect(await ask()).toBe(false);
    expect(await ask({ caller: PAYER })).toBe(true);
    const { ask: ofService, calls } = fixture(async () => word(1));
    await ofService({ serviceId: 1 });
    await ofService({ serviceId: 2 });
    expect(calls).toHaveLength(2);
  });

  test("the oldest permission is evicted when the cache is full", async () => {
    const { ask, calls } = fixture(async () => word(1), { callersMax: 2 });
    for (const serviceId of [1, 2, 3, 2, 3]) await ask({ serviceId });
    expect(calls).toHaveLength(3);
    await ask({ serviceId: 1 });
    expect(calls).toHaveLength(4);
  });

  test("concurrent requests for the same permission share one read", async () => {
    const { ask, calls } = fixture(async () => {
      await setImmediate();
      return word(1);
    });
    expect(await Promise.all(Array.from({ length: 20 }, () => ask()))).toEqual(Array(20).fill(true));
    expect(calls).toHaveLength(1);
  });

  test.each<[string, Ask]>([
    ["rejects", () => Promise.reject(new Error(`fetch ${RPC.reveal()} failed`))],
    [
      "throws",
      () => {
        throw new TypeError(`cannot reach ${RPC.reveal()}`, { cause: new Error(RPC.reveal()) });
      },
    ],
    ["rejects with no error", () => Promise.reject(RPC.reveal())],
    ["answers nothing, like an address without a contract", async () => "0x"],
    ["answers two words", async () => `${word(0)}${"1".padStart(64, "0")}` as const],
    ["answers a number that is not a bool", async () => word(2)],
    ["answers with a bit in another place", async () => `0x1${"0".repeat(63)}`],
    ["answers the URL", async () => RPC.reveal() as `0x${string}`],
  ])(
    "if the node %s, the check of a caller is unavailable, and the refusal does not contain the RPC URL",
    async (_what, misbehave) => {
      let well = false;
      const { ask } = fixture((call) => (well ? Promise.resolve(word(1)) : misbehave(call)));
      const error = await failureOf(ask());
      expect(error.code).toBe("caller.check_unavailable");
      expect(inspect(error, { depth: 10 }) + error.publicDetail).not.toContain("canary");
      well = true;
      expect(await ask()).toBe(true);
    },
  );

  test("a permission read ends at the node's deadline, also for a request that joined it, and the next request reads it again", async () => {
    let hangs = true;
    const node = createServer((_req, res) => {
      if (!hangs) res.end(JSON.stringify({ jsonrpc: "2.0", id: 1, result: word(1) }));
    });
    await once(node.listen(0, "127.0.0.1"), "listening");
    const rpcUrl = new Secret(`http://127.0.0.1:${(node.address() as AddressInfo).port}/canary-key`);
    const ethCall = createEthCall({ rpcUrl, timeoutMs: 30 });
    const { ask } = fixture(ethCall as Ask);
    const errors = await Promise.all([failureOf(ask()), failureOf(ask())]);
    for (const error of errors) {
      expect(error.code).toBe("caller.check_unavailable");
      expect(error.message).toMatch(/within 30 ms/);
      expect(inspect(error, { depth: 10 })).not.toContain("canary");
    }
    hangs = false;
    await eventually("it is answered", ask);
    node.closeAllConnections();
    node.close();
  });
});
