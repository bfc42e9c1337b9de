import type { PaymentRequirements } from "@x402/core/types";
import { beforeAll, expect, test } from "vitest";
import { toCanaryPayment } from "../../../../services/x402-gateway/facilitator/canary-payment.ts";
import { Facilitators } from "../../../../services/x402-gateway/facilitator/pool.ts";
import { createChain } from "../../../../shared/chain/chain.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import type { FacilitatorRequest } from "../../../../shared/payments/payment.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { systemClock } from "../../../../shared/platform/time/clock.ts";
import { useDevnet } from "../../../fixtures/devnet.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { signPayment, signPaymentV1 } from "../../../support/sign-payment.ts";
import { payingClient } from "./faulty-facilitator.ts";

const devnet = useDevnet();
const ends = useEnds();
let facilitators: Facilitators;

beforeAll(async () => {
  const common = {
    ...{ verifyTimeoutMs: 5000, settleTimeoutMs: 15_000, authorize: undefined },
    ...{ clock: systemClock, log: silentLogger },
  };
  facilitators = new Facilitators({
    facilitators: [{ url: devnet.facilitatorUrl, headers: {} }],
    ...common,
  });
  ends.defer(() => facilitators.close());
  void facilitators.start();
  await eventually("it is known", () => facilitators.available()[0]?.ok);
});
function requirements(extra = { name: "USDC", version: "2" }): PaymentRequirements {
  const { network, token, seller } = devnet;
  return {
    scheme: "exact",
    network: network as PaymentRequirements["network"],
    asset: token,
    amount: "1000",
    payTo: seller,
    maxTimeoutSeconds: 120,
    extra,
  };
}

test("a real facilitator settles a version 2 payment, as the chain proves; a second time the outcome is unknown", async () => {
  const [payer] = devnet.payers;
  const accepted = requirements();
  const sinceBlock = (await devnet.chain.client.getBlock()).number;
  const { payload, signed } = await signPayment(accepted, { payer: payer! });
  const request = { x402Version: 2, paymentPayload: payload, paymentRequirements: accepted } as const;

  const { verified, url } = await facilitators.judge(
    request,
    { scheme: "exact", network: devnet.network },
    payingClient(payer!.address),
  );
  const settled = await facilitators.settle(request, url);
  expect(verified).toEqual({ kind: "valid" });
  expect(settled.kind).toBe("settled");

  const { rpcUrl, chainId, token } = devnet;
  const common = { confirmations: 0, voidDepth: 512, timeoutMs: 5000, clock: systemClock, log: silentLogger };
  const chain = createChain({ rpcUrl: new Secret(rpcUrl), chainId, ...common });
  const { value, validAfter, validBefore, ...its } = signed.authorization;
  const times = { validAfter: BigInt(validAfter), validBefore: BigInt(validBefore) };
  const kind = { method: "eip3009", asset: token, eventOrder: "used_first" } as const;
  const authorization = { ...its, ...times, ...kind, value: BigInt(value) };
  const transaction = settled.kind === "settled" && settled.transaction;
  expect(await chain.evidenceOf(authorization, { since: sinceBlock })).toMatchObject({
    kind: "paid",
    transaction,
  });

  expect((await facilitators.settle(request, url)).kind).toBe("unknown");
});

test("a real facilitator verifies and settles a version 1 payment", async () => {
  const { networkV1: network, token, seller, payers } = devnet;
  const { extra, scheme, maxTimeoutSeconds } = requirements();
  const offer = {
    ...{ scheme, network: network as PaymentRequirements["network"], asset: token, payTo: seller, extra },
    ...{ maxAmountRequired: "1000", maxTimeoutSeconds, resource: "https://seller.example/jobs" },
    ...{ description: "a job", mimeType: "application/json", outputSchema: {} },
  };
  const { payload } = await signPaymentV1(offer, { payer: payers[1]! });
  const request = { x402Version: 1, paymentPayload: payload, paymentRequirements: offer } as const;

  const { verified, url } = await facilitators.judge(
    request,
    { scheme, network },
    payingClient(payers[1]!.address),
  );
  expect(verified.kind).toBe("valid");
  expect((await facilitators.settle(request, url)).kind).toBe("settled");
});

test("a real facilitator blames the operator for a wrong EIP-712 name, and the payer for a missing balance", async () => {
  const kind = { scheme: "exact", network: devnet.network };
  const verdictOn = async (accepted: PaymentRequirements, value?: bigint) => {
    const { payload } = await signPayment(accepted, { payer: devnet.payers[2]!, ...(value && { value }) });
    const request = { x402Version: 2, paymentPayload: payload, paymentRequirements: accepted } as const;
    return (await facilitators.judge(request, kind, payingClient(devnet.payers[2]!.address))).verified;
  };

  expect(await verdictOn(requirements({ name: "USD Coin", version: "2" }))).toEqual({
    kind: "refused",
    reason: "invalid_exact_evm_token_name_mismatch",
    fault: "operator",
  });
  const tooMuch = { ...requirements(), amount: String(10n ** 30n) };
  expect(await verdictOn(tooMuch)).toEqual({
    kind: "refused",
    reason: "invalid_exact_evm_insufficient_balance",
    fault: "payer",
  });
});

test("a real facilitator judges the canary payment, which shows whether it works", async () => {
  const { network, networkV1, token, seller } = devnet;
  const accepted = requirements();
  const v2 = { x402Version: 2, paymentPayload: {}, paymentRequirements: accepted } as const;
  const { extra, scheme, maxTimeoutSeconds } = accepted;
  const offer = {
    ...{ scheme, network: networkV1, asset: token, payTo: seller, extra, maxTimeoutSeconds },
    ...{ maxAmountRequired: "1000", resource: "https://seller.example/jobs", description: "a job" },
    ...{ mimeType: "application/json", outputSchema: {} },
  };
  const v1 = { x402Version: 1, paymentPayload: {}, paymentRequirements: offer } as const;
  const verdictOn = async (request: FacilitatorRequest, on: string) =>
    (
      await facilitators.judge(
        toCanaryPayment(request, Date.now()),
        { scheme, network: on },
        payingClient("nobody"),
      )
    ).verified;

  // The canary payment is signed correctly and has no money, so this refusal shows that the facilitator has read the chain.
  const refused = { kind: "refused", reason: expect.stringMatching(/insufficient_balance/), fault: "payer" };
  expect(await verdictOn(v2, network)).toEqual(refused);
  expect(await verdictOn(v1, networkV1)).toEqual(refused);
  const byPermit2 = {
    ...accepted,
    asset: devnet.permit2Tokens.usdt,
    extra: { assetTransferMethod: "permit2" },
  };
  expect(await verdictOn({ ...v2, paymentRequirements: byPermit2 }, network)).toEqual(refused);
});
