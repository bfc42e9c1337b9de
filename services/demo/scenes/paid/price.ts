import { DEV_JOBS } from "../../../../shared/dev/config.ts";
import { httpRequest } from "../../http-request.ts";
import type { PaidScene } from "../../scene.ts";
import { usdc } from "../../shop/usdc.ts";
import { KECCAK256_UNITS } from "./terms.ts";

/** The price as anybody may read it, and the same price in the 402 that both versions of the protocol can pay. */
export const price: PaidScene = {
  title: "A job has a price, and a 402 that clients of both versions of x402 can pay",
  async play({ stage }, shop) {
    const order = shop.order(DEV_JOBS.keccak256, "hello");
    const { status, text } = await httpRequest(shop.gateway.address, {
      method: "GET",
      path: `${order.path}/price`,
    });
    const { price_wei: wei, settlement_options: options } = JSON.parse(text);
    const units = String(KECCAK256_UNITS);
    stage.check(
      `GET ${order.path}/price: ${wei} wei, at 3200 USDC for 10^18 wei ${usdc(KECCAK256_UNITS)} USDC`,
      [status, options[0].amount],
      [200, units],
    );
    stage.output([text]);

    const asked = await shop.buyer("version 2").ask(order);
    stage.check(`POST ${order.path} without a payment is answered 402`, asked.status, 402);
    const required = Buffer.from(String(asked.headers["payment-required"]), "base64").toString();
    const [offer] = JSON.parse(required).accepts;
    stage.check(
      `its PAYMENT-REQUIRED header offers version 2: ${offer.amount} units to ${offer.payTo}`,
      [offer.network, offer.amount, offer.payTo],
      [shop.devnet.network, units, shop.devnet.seller],
    );
    const [offerV1] = JSON.parse(asked.text).accepts;
    stage.check(
      `its body offers version 1: ${offerV1.maxAmountRequired} units on ${offerV1.network}`,
      [offerV1.network, offerV1.maxAmountRequired, offerV1.payTo],
      ["base-sepolia", units, shop.devnet.seller],
    );
  },
};
