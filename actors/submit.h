// From a caller's request to an operation in a replica's mailbox: checks on the caller's thread,
// takes all room for the result, lets the cancellation slot reach it, and sends it. Any thread.
#pragma once

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <memory>

#include "actors/model_state.h"
#include "tinyloop/detail/completion.h"

namespace tinyloop::actors {

using ModelRef = std::shared_ptr<ModelState>;

// The completion gets the outcome, or what is wrong with the request. `model` may be null.
void start_generate(const ModelRef& model, const GenerateRequest& request,
                    detail::Completion<GenerateResult> completion);
void start_score(const ModelRef& model, const ScoreRequest& request,
                 detail::Completion<ScoreResult> completion);

void start_build(const ModelRef& model, const PrefixRequest& request,
                 detail::Completion<PrefixCache> completion);
void start_build(const ModelRef& model, const ResumeRequest& request,
                 detail::Completion<ResumeHandle> completion);
void start_deepen(const ModelRef& model, const DeepenRequest& request,
                  detail::Completion<ResumeHandle> completion);
void start_register(const ModelRef& model, const detail::PoolRef& pool,
                    const PrefixRequest& request, detail::Completion<int32_t> completion);
// Completes when the handle's memory is back.
void start_release(const ReuseHandle& handle, detail::Completion<> completion);

// The stream's reader gets it; never null. `prompt`: if given, receives the prompt's tokens.
boost::intrusive_ptr<StreamOperation> start_stream(const ModelRef& model,
                                                   const GenerateRequest& request,
                                                   std::vector<int32_t>* prompt = nullptr);

// Lets the slot cancel the operation; before the operation is sent, or by the rules of the slot.
// The slot is not cleared when the operation completes, for a clear would race with a cancel
// emitted on another thread; what the slot holds stays valid by itself, and a late cancel does
// nothing.
void let_cancel(boost::asio::cancellation_slot slot, OperationPtr operation);

error_code empty_model() noexcept;

}  // namespace tinyloop::actors
