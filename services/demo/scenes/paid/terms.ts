/**
 * What the demo's jobs cost in the token's smallest units, worked out by hand: 3200 USDC for 10^18 wei, and 10^6 units to
 * the USDC. 10^13 wei are 0.032 USDC.
 */
export const ECHO_UNITS = 32_000n;
export const KECCAK256_UNITS = 64_000n;
