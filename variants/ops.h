#pragma once
// The functions that declare the ops whose folders need no header of their own, and their variants.
#include "harness/core/variant.h"

namespace warptune {

Op add_rms_norm();
std::vector<Variant> add_rms_norm_cuda(), add_rms_norm_host();
Op advance();
std::vector<Variant> advance_cuda(), advance_host();
Op all_gather();
std::vector<Variant> all_gather_cuda(), all_gather_host();
Op all_reduce();
std::vector<Variant> all_reduce_cuda(), all_reduce_host();
std::vector<Variant> all_reduce_nccl();  // in a build with NCCL
Op all_reduce_add_rms_norm();
std::vector<Variant> all_reduce_add_rms_norm_cuda(), all_reduce_add_rms_norm_host();
Op argmax();
std::vector<Variant> argmax_cuda(), argmax_host();
Op causal_mask();
std::vector<Variant> causal_mask_cuda(), causal_mask_host();
Op embedding();
std::vector<Variant> embedding_cuda(), embedding_host();
Op logits_dot_v();
std::vector<Variant> logits_dot_v_cuda(), logits_dot_v_host();
Op padding_offset();
std::vector<Variant> padding_offset_cuda(), padding_offset_host();
Op remove_padding();
std::vector<Variant> remove_padding_cuda(), remove_padding_host();
Op restore_padding();
std::vector<Variant> restore_padding_cuda(), restore_padding_host();
Op rms_norm();
std::vector<Variant> rms_norm_cuda(), rms_norm_host();
Op softmax();
std::vector<Variant> softmax_cuda(), softmax_host();
Op swiglu();
std::vector<Variant> swiglu_cuda(), swiglu_host();
Op top_k();
std::vector<Variant> top_k_cuda(), top_k_host();

}  // namespace warptune
