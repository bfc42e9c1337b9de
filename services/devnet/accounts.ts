import { mnemonicToAccount, privateKeyToAccount } from "viem/accounts";
import { toHex } from "../../shared/ethereum/encoding.ts";

export type Hex = `0x${string}`;

export type DevAccount = { readonly address: Hex; readonly privateKey: Hex };

/** The phrase from which anvil makes its accounts, known to everybody: each holds 10000 worthless ether. */
const MNEMONIC = "test test test test test test test test test test test junk";

/**
 * Who is who among the phrase's accounts, the first ten of which are anvil's. The very first is left to tests and examples,
 * which sign as it; a payer needs no ether.
 */
const FACILITATOR = 1;
const THIRD_PARTY = 2;
const SELLER = 3;
const PAYERS = [4, 5, 6, 7, 8, 9, 10];

export type Cast = {
  facilitator: DevAccount;
  /** For acting from outside: furnishing the chain, sending somebody else's authorization. */
  thirdParty: DevAccount;
  seller: Hex;
  payers: readonly DevAccount[];
};

export function castOf(): Cast {
  return {
    facilitator: accountAt(FACILITATOR),
    thirdParty: accountAt(THIRD_PARTY),
    seller: accountAt(SELLER).address,
    payers: PAYERS.map(accountAt),
  };
}

function accountAt(addressIndex: number): DevAccount {
  const key = mnemonicToAccount(MNEMONIC, { addressIndex }).getHdKey().privateKey;
  if (key === null) throw new Error(`anvil's account ${addressIndex} has no private key`);
  const privateKey = toHex(key);
  return { address: privateKeyToAccount(privateKey).address, privateKey };
}
