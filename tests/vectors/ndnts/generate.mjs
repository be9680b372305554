// Writes ../ndnts-<version>.json: what NDNts' encoders make of given fields.

import { createHash, createHmac } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

import { LpPacket } from "@ndn/lp";
import { Segment, SequenceNum, Version } from "@ndn/naming-convention2";
import {
  Component, Data, FwHint, Interest, LLSign, Nack, NackHeader, Name, SigInfo, TT,
} from "@ndn/packet";
import { Encoder } from "@ndn/tlv";

const KEY_NAME = "/8=alice/8=KEY/8=k1";
const SECRET = Buffer.from(Array.from({ length: 32 }, (_, i) => i));
const version = JSON.parse(readFileSync(new URL("package.json", import.meta.url)))
  .dependencies["@ndn/packet"];

const hex = (bytes) => Buffer.from(bytes).toString("hex");
const wire = (packet) => hex(Encoder.encode(packet));
const components = (name) => name.comps.map((component) => wire(component));

const signers = {
  digest: [0, async (input) => createHash("sha256").update(input).digest()],
  hmac: [4, async (input) => createHmac("sha256", SECRET).update(input).digest()],
  null: [200, async () => new Uint8Array()],
};

async function interest(what, packet, { hint = null, signer, canonical = true } = {}) {
  let signature = null;
  if (signer) {
    const [type, sign] = signers[signer];
    packet.sigInfo = new SigInfo(type, ...(signer === "hmac" ? [new Name(KEY_NAME)] : []));
    packet.sigInfo.nonce = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8);
    packet.sigInfo.time = 1700000000000;
    packet.sigInfo.seqNum = 7n;
    await packet[LLSign.OP](sign);
    signature = {
      type, key_name: signer === "hmac" ? "/alice/KEY/k1" : null, nonce: "0102030405060708",
      time_ms: 1700000000000, sequence: 7, value: hex(packet.sigValue),
    };
  } else if (packet.appParameters) {
    await packet.updateParamsDigest();
  }
  return {
    what: `Interest: ${what}`, canonical, hex: wire(packet),
    interest: {
      name: components(packet.name), can_be_prefix: packet.canBePrefix,
      must_be_fresh: packet.mustBeFresh, nonce: packet.nonce, lifetime_ms: packet.lifetime,
      hop_limit: packet.hopLimit === 255 ? null : packet.hopLimit, hint,
      parameters: packet.appParameters ? hex(packet.appParameters) : null,
      ...(signature ? { signature } : {}),
    },
  };
}

async function data(what, packet, signer, canonical = true) {
  const [type, sign] = signers[signer];
  packet.sigInfo = new SigInfo(type, ...(signer === "hmac" ? [new Name(KEY_NAME)] : []));
  await packet[LLSign.OP](sign);
  return {
    what: `Data: ${what}`, canonical, hex: wire(packet),
    data: {
      name: components(packet.name), content: hex(packet.content),
      content_type: packet.contentType, freshness_ms: packet.freshnessPeriod,
      final: packet.finalBlockId ? wire(packet.finalBlockId) : null, signature_type: type,
      key_name: signer === "hmac" ? "/alice/KEY/k1" : null, signature: hex(packet.sigValue),
    },
  };
}

function link(what, payload, fields) {
  const packet = new LpPacket();
  packet.payload = payload;
  Object.assign(packet, fields);
  const pieces = packet.fragCount > 1;
  return {
    what: `LpPacket: ${what}`, canonical: !pieces, hex: wire(packet),
    link: {
      payload: hex(payload), pit_token: hex(packet.pitToken ?? []),
      nack: packet.nack ? packet.nack.reason : null, congestion_mark: packet.congestionMark ?? 0,
      fragment: pieces ? [Number(packet.fragSeqNum), packet.fragIndex, packet.fragCount] : null,
    },
  };
}

const asked = new Interest("/8=a", Interest.Nonce(1));
const askedWire = Encoder.encode(asked);
const numbers = new Name("/8=a").append(Segment, 0).append(Version, 256).append(SequenceNum, 65536);
const everything = new Interest(
  "/8=a/8=b", Interest.CanBePrefix, Interest.MustBeFresh, Interest.Nonce(0xffffffff),
  Interest.Lifetime(300), Interest.HopLimit(7), new FwHint("/8=n/8=s0"));
const long = new Name([new Component(TT.GenericNameComponent, new Uint8Array(300))]);
const segment = new Data(new Name("/8=a").append(Version, 1).append(Segment, 2),
  Data.FreshnessPeriod(60000), Data.FinalBlock, new Uint8Array(256));
segment.contentType = 1024;

const vectors = [
  await interest("least", asked),
  await interest("numbers", new Interest(numbers, Interest.Nonce(2))),
  await interest("long component", new Interest(long, Interest.Nonce(3))),
  await interest("everything", everything, { hint: "/n/s0" }),
  await interest("parameters", new Interest("/8=a", Interest.Nonce(5), Buffer.from("hello"))),
  await interest("signed by digest", new Interest("/8=a", Interest.Nonce(6), Buffer.from("x")),
    { signer: "digest" }),
  await interest("signed by hmac", new Interest("/8=a", Interest.Nonce(7), Buffer.from("x")),
    { signer: "hmac" }),
  await data("signed by digest", new Data("/8=a/8=b", Buffer.from("hello")), "digest"),
  await data("signed by hmac", new Data("/8=a/8=b", Buffer.from("hello")), "hmac"),
  await data("signed by null", new Data("/8=a/8=b", Buffer.from("hello")), "null"),
  await data("metadata", segment, "digest"),
  // NDNts leaves an empty Content out.
  await data("no content", new Data("/8=a", Data.FreshnessPeriod(1)), "digest", false),
  link("bare", askedWire, {}),
  link("PIT token", askedWire, { pitToken: Uint8Array.of(0, 1, 2, 3, 4, 5, 6, 7) }),
  link("congestion mark", askedWire, { congestionMark: 1 }),
  ...[50, 100, 150].map((reason) =>
    link(`Nack ${reason}`, askedWire, { nack: new Nack(asked, new NackHeader(reason)).header })),
  link("first piece of two", askedWire.subarray(0, 5), { fragSeqNum: 258n, fragIndex: 0, fragCount: 2 }),
];

const document = { source: `NDNts ${version}`, vectors };
writeFileSync(new URL(`../ndnts-${version}.json`, import.meta.url),
  `${JSON.stringify(document, undefined, 1)}\n`);
